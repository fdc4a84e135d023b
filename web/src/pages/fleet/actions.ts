// What is done with many desktops at once, in the words of a person.
interface Action {
  verb: string;
  of: (desktops: string) => string;
  means: string;
}

const ENDS = "Programs that run on them end; what is on their disks stays.";

export const ACTIONS: Record<string, Action> = {
  start: { verb: "Start", of: (desktops) => `Start ${desktops}`, means: "" },
  stop: { verb: "Stop", of: (desktops) => `Stop ${desktops}`, means: ENDS },
  restart: { verb: "Restart", of: (desktops) => `Restart ${desktops}`, means: ENDS },
  pause: {
    verb: "Pause",
    of: (desktops) => `Pause ${desktops}`,
    means: "Each halts as it is, with all that runs on it; nobody there answers.",
  },
  resume: { verb: "Resume", of: (desktops) => `Resume ${desktops}`, means: "" },
  upgrade: {
    verb: "Upgrade",
    of: (desktops) => `Upgrade ${desktops}`,
    means: "By a restart, those of a workspace one by one. /home, keys and addresses stay; all else on their system disks is lost.",
  },
  freeze: {
    verb: "Stop the agents at once",
    of: (desktops) => `Stop the agents of ${desktops}`,
    means: "They stand still until they are let go on, and nothing is lost. Screens and terminals stay yours.",
  },
  thaw: { verb: "Let the agents go on", of: (desktops) => `Let the agents of ${desktops} go on`, means: "" },
};
