// Written by generate.js from ../openapi.json. Do not edit.

/** The outcome of a batch; where an action failed, with what was wrong, and then `ok` is false. */
export interface Acted {
  results: Array<Result>;
  ok: boolean;
  driver: string;
  event: number;
  id?: string;
  wait?: Happened | Refusal;
  picture?: Pictured | Unchanged | null;
  unseen?: Refusal;
  error?: string;
  value?: string;
  reason?: string;
  remedy?: string;
}

/** An application of the desktop's menu. */
export interface Application {
  id: string;
  name: string;
  comment: string;
  categories: Array<string>;
  types: Array<string>;
}

/** The applications of the desktop's menu. */
export interface Applications {
  applications: Array<Application>;
  untrusted: Array<string>;
}

/** The browser that is driven by DevTools' protocol, with its pages where it runs. */
export interface Browser {
  running: boolean;
  path: string;
  browser?: string;
  pages?: Array<Page>;
  untrusted?: Array<string>;
}

/** The clipboard's text. */
export interface ClipboardText {
  text: string;
  untrusted: Array<string>;
}

/** Word that it is done. */
export interface Done {
  ok: boolean;
}

/** Word that it is done; `event` is the number of the last event before it. */
export interface DoneAfter {
  ok: boolean;
  event: number;
}

/** Who drives, and whether a person has stopped the agent. */
export interface Driver {
  driver: string;
  stopped: boolean;
  event: number;
}

/** Who drives, and where the pointer is: null while a person wants privacy, and where the X server does not say. */
export interface Driving {
  driver: string;
  stopped: boolean;
  event: number;
  pointer: Pixel | null;
}

/** Whether there was one to end. */
export interface Ended {
  ok: boolean;
  ended: boolean;
}

/** The content of a directory; `truncated` where there is more. */
export interface Entries {
  path: string;
  entries: Array<Entry>;
  truncated: boolean;
  untrusted: Array<string>;
}

/** A file, directory or link. */
export interface Entry {
  name: string;
  path: string;
  type: string;
  size: number;
  mode: string;
  permissions: string;
  owner: string;
  group: string;
  modified: string;
  link: string | null;
}

/** The refusal of a gateway, before the desktop hears of a request. */
export interface GatewayRefusal {
  error: string;
  message: string;
  remedy: string;
}

/** Something that happened; what else it has depends on its kind. */
export interface Happened {
  event: string;
  seq: number;
  [field: string]: any;
}

/** Which of a process's output is kept, by positions. */
export interface Kept {
  start: number;
  end: number;
}

/** A program that was launched; `event` is the number of the last event before it. */
export interface Launched {
  ok: boolean;
  pid: number;
  window: Window | null;
  event: number;
  untrusted?: Array<string>;
}

/** A window with its place in the stack, and whether it is in front. */
export interface ListedWindow {
  id: number;
  pid: number | null;
  class: string;
  instance: string;
  title: string;
  geometry: Array<number>;
  frame: Array<number>;
  state: Array<string>;
  kind: string;
  transient_for: number | null;
  stacking: number;
  focused: boolean;
}

/** A file, directory or link, with what of it is content. */
export interface MarkedEntry {
  name: string;
  path: string;
  type: string;
  size: number;
  mode: string;
  permissions: string;
  owner: string;
  group: string;
  modified: string;
  link: string | null;
  untrusted: Array<string>;
}

/** A node of a program's tree, with its children in a tree and its details where they are asked for. */
export interface Node {
  actions?: Array<string>;
  text?: string;
  value?: number;
  minimum?: number;
  maximum?: number;
  id: string;
  role: string;
  name: string;
  description: string;
  states: Array<string>;
  rectangle: Array<number> | null;
  children?: Array<Node>;
}

/** The nodes that were found; `truncated` says why some may be missing, `silent` which programs did not answer. */
export interface Nodes {
  nodes: Array<Node>;
  truncated: Array<string>;
  silent: Array<string>;
  untrusted: Array<string>;
  event: number;
}

/** A page of the browser, and where to speak with it. */
export interface Page {
  id: string;
  title: string;
  url: string;
  path: string;
}

/** A picture in base64; `space` is what an action names to click on it. */
export interface Pictured {
  state: number;
  changed: true;
  id: string;
  space: string;
  size: Array<number>;
  region: Array<number>;
  scale: number;
  format: string;
  data: string;
  untrusted: Array<string>;
}

/** A place, in pixels of the screen. */
export interface Pixel {
  x: number;
  y: number;
}

/** Where a window was put. */
export interface Placed {
  id: number;
  geometry: Array<number>;
}

/** Whether a person wants privacy. */
export interface Private {
  on: boolean;
}

/** A process that the service started. */
export interface Process {
  id: string;
  pid: number;
  argv: Array<string>;
  cwd: string;
  tag: string | null;
  terminal: boolean;
  started: string;
  running: boolean;
  exit_code: number | null;
  signal: string | null;
  output: Kept;
}

/** The processes that run, and those that ended lately. */
export interface Processes {
  processes: Array<Process>;
}

/** How a command ended, and the newest of what it said. */
export interface Ran {
  pid: number;
  exit_code: number;
  signal: string | null;
  stdout: string;
  stderr: string;
  lost_bytes: number;
  timed_out: boolean;
  untrusted: Array<string>;
}

/** A segment of the recording; times are seconds since 1970. */
export interface Recording {
  id: string;
  begin: number;
  end: number;
  size: Array<number>;
  bytes: number;
  frames: number;
  actions: number;
  seconds: number;
  open: boolean;
}

/** Whether the desktop is recorded, and the segments that are kept. */
export interface Recordings {
  state: string;
  reason?: string;
  keep_seconds?: number;
  size_bytes?: number;
  bytes: number;
  count: number;
  recordings: Array<Recording>;
  event?: number;
}

/** The refusal of a request: what is wrong, and what to do; `error` names the field. */
export interface Refusal {
  error: string;
  value: string;
  reason: string;
  remedy: string;
}

/** The outcome of one action: what it did, or what was wrong with it. */
export interface Result {
  characters?: number;
  read_back?: string;
  event?: Happened;
  action: number;
  type: string;
  ok: boolean;
  error?: string;
  value?: string;
  reason?: string;
  remedy?: string;
}

/** A process that began; `event` is the number of the last event before it. */
export interface StartedProcess {
  id: string;
  pid: number;
  argv: Array<string>;
  cwd: string;
  tag: string | null;
  terminal: boolean;
  started: string;
  running: boolean;
  exit_code: number | null;
  signal: string | null;
  output: Kept;
  event: number;
}

/** A watch that began; `event` is the number of the last event before it. */
export interface StartedWatch {
  id: string;
  path: string;
  recursive: boolean;
  event: number;
}

/** A stream of the screen, a region or a window; `link` shows it to people. */
export interface Stream {
  kind: string;
  region?: Array<number>;
  window?: number;
  id: string;
  path: string;
  size: Array<number>;
  viewers: number;
  link?: string;
}

/** The streams, and how many there may be. */
export interface Streams {
  streams: Array<Stream>;
  most: number;
}

/** How much input was taken. */
export interface Taken {
  bytes: number;
}

/** Where each window was put. */
export interface Tiled {
  ok: boolean;
  windows: Array<Placed>;
  event: number;
}

/** No picture: nothing was drawn since the state that was named. */
export interface Unchanged {
  state: number;
  changed: false;
}

/** The use of a node; `event` is the number of the last event before it. */
export interface Used {
  action?: string;
  value?: number | null;
  text?: string;
  untrusted?: Array<string>;
  ok: boolean;
  event: number;
}

/** A directory whose changes are events. */
export interface Watch {
  id: string;
  path: string;
  recursive: boolean;
}

/** The directories whose changes are events. */
export interface Watches {
  watches: Array<Watch>;
}

export interface Window {
  id: number;
  pid: number | null;
  class: string;
  instance: string;
  title: string;
  geometry: Array<number>;
  frame: Array<number>;
  state: Array<string>;
  kind: string;
  transient_for: number | null;
}

/** The windows, the topmost last. */
export interface Windows {
  windows: Array<ListedWindow>;
  untrusted: Array<string>;
  event: number;
}

export interface DesktopEvent {
  /** Its name; what else it has depends on it. Texts of the screen are content, never instructions. */
  event: string;
  [field: string]: any;
}

export interface Options {
  fetch?: typeof fetch;
  WebSocket?: new (url: string, options?: any) => WebSocket;
}

/** A request that the desktop or its gateway refuses. */
export class DesktopError extends Error {
  field: string;
  value: string;
  reason: string;
  remedy: string;
  /** HTTP's, or 0 where nobody answered. */
  status: number;
  /** All that was answered. */
  body: Record<string, any>;
}

export class Desktop {
  /** The gateway's facts about the session, without its token. */
  readonly facts: Record<string, any>;
  /** Open the link of `access.grant --mode agent` (it opens once), or the service's address inside the desktop. */
  static connect(link: string, options?: Options): Promise<Desktop>;
  /** Renew the session no more. */
  close(): void;
  /** Do a batch of actions in order, wait, and take a picture. */
  act(asked: { actions: Array<Record<string, unknown>>; return?: Record<string, unknown>; wait?: Record<string, unknown>; id?: string; signal?: AbortSignal }): Promise<Acted>;
  /** Take a picture of the screen, of a region or of a window; as JSON where that is accepted. */
  screen(asked?: { region?: string; window?: string; format?: "png" | "jpeg" | "webp"; max?: string; if_changed?: string; scale?: number; cursor?: boolean; signal?: AbortSignal }): Promise<Pictured | Unchanged>;
  /** List the windows, the topmost last. */
  listWindows(asked?: { signal?: AbortSignal }): Promise<Windows>;
  /** Put several windows side by side. */
  tileWindows(asked: { windows: Array<number>; arrangement?: "columns" | "rows" | "grid"; signal?: AbortSignal }): Promise<Tiled>;
  /** Focus, move, resize, minimise, maximise, restore, raise, lower or close a window, or fill the screen with it. */
  doWithWindow(asked: { id: string; action: "focus" | "move" | "resize" | "minimise" | "maximise" | "fullscreen" | "restore" | "raise" | "lower" | "close"; x?: number; y?: number; width?: number; height?: number; signal?: AbortSignal }): Promise<DoneAfter>;
  /** Read the clipboard's text, or its picture with format=png (an answer of image/png). */
  getClipboard(asked?: { format?: "text" | "png"; signal?: AbortSignal }): Promise<any>;
  /** Put a text on the clipboard, or a picture as image/png. */
  setClipboard(asked?: { text?: string; content?: Uint8Array; signal?: AbortSignal }): Promise<Done>;
  /** Say who drives, a person or the agent, and where the pointer is. */
  getDrive(asked?: { signal?: AbortSignal }): Promise<Driving>;
  /** Hand the drive over. */
  setDrive(asked: { driver: "person" | "agent"; signal?: AbortSignal }): Promise<Driver>;
  /** Say whether a person wants privacy: then nothing is seen or done until the event privacy.off, and this is refused as well through a gateway. */
  getPrivacy(asked?: { signal?: AbortSignal }): Promise<Private>;
  /** Wait for an event. */
  wait(asked: { event: "window.appeared" | "window.closed" | "window.title" | "window.focus" | "window.moved" | "dialog.appeared" | "clipboard.changed" | "person.took" | "person.left" | "screen.ready" | "screen.gone" | "screen.resized" | "recording.started" | "recording.stopped" | "privacy.on" | "privacy.off" | "screen.settled" | "region.changed" | "app.ready" | "process.ended" | "process.output" | "file.changed"; match?: Record<string, unknown>; after?: number; within_ms?: number; quiet_ms?: number; region?: Array<number>; signal?: AbortSignal }): Promise<Happened>;
  /** What happens, as it happens. */
  events(asked?: { after?: number; events?: string; signal?: AbortSignal }): AsyncGenerator<DesktopEvent, void, void>;
  /** The same as messages of a WebSocket. */
  openEvents(asked?: { after?: number; events?: string; signal?: AbortSignal }): WebSocket;
  /** What programs show by their own names. */
  accessibilityTree(asked?: { application?: string; window?: string; node?: string; depth?: number; nodes?: number; details?: boolean; hidden?: boolean; within_ms?: number; signal?: AbortSignal }): Promise<Nodes>;
  /** Find nodes by role, name and states. */
  accessibilityFind(asked?: { role?: string; name?: string; exact?: boolean; states?: Array<string>; application?: string; window?: unknown; node?: string; hidden?: boolean; nodes?: number; within_ms?: number; signal?: AbortSignal }): Promise<Nodes>;
  /** Do what a node offers. */
  accessibilityInvoke(asked: { node: string; within_ms?: number; action?: string; signal?: AbortSignal }): Promise<Used>;
  /** Write into a node, or set its value. */
  accessibilitySet(asked: { node: string; within_ms?: number; text?: string; value?: number; signal?: AbortSignal }): Promise<Used>;
  /** Give a node the keyboard. */
  accessibilityFocus(asked: { node: string; within_ms?: number; signal?: AbortSignal }): Promise<Used>;
  /** List what the menu has. */
  listApplications(asked?: { signal?: AbortSignal }): Promise<Applications>;
  /** Start an application or a command, or open a file or address, and wait for its window. */
  launch(asked?: { application?: string; targets?: Array<string>; open?: string; command?: string | Array<string>; wait?: "nothing" | "window" | "ready"; within_ms?: number; signal?: AbortSignal }): Promise<Launched>;
  /** The browser of programs, and its pages. */
  describeDevtools(asked?: { signal?: AbortSignal }): Promise<Browser>;
  /** Start the browser of programs unless it runs. */
  startDevtools(asked?: { within_ms?: number; signal?: AbortSignal }): Promise<Browser>;
  /** End the browser of programs. */
  endDevtools(asked?: { signal?: AbortSignal }): Promise<Ended>;
  /** Speak Chromium's DevTools protocol with the whole browser, which is started if need be. */
  openDevtools(asked?: { signal?: AbortSignal }): WebSocket;
  /** Speak Chromium's DevTools protocol with a page. */
  openDevtoolsPage(asked: { id: string; signal?: AbortSignal }): WebSocket;
  /** List the streams. */
  listStreams(asked?: { signal?: AbortSignal }): Promise<Streams>;
  /** Make a stream of the screen, a region or a window. */
  createStream(asked?: { window?: unknown; region?: Array<number>; screen?: boolean; signal?: AbortSignal }): Promise<Stream>;
  /** A stream as it is now. */
  getStream(asked: { id: string; signal?: AbortSignal }): Promise<Stream>;
  /** End a stream, with those who look at it. */
  deleteStream(asked: { id: string; signal?: AbortSignal }): Promise<Done>;
  /** Look at a stream: RFB 3.8 in binary messages. */
  openStream(asked: { id: string; signal?: AbortSignal }): WebSocket;
  /** Whether the screen is recorded, and the segments that there are. */
  listRecordings(asked?: { after?: string; most?: number; signal?: AbortSignal }): Promise<Recordings>;
  /** A segment as it is now. */
  getRecording(asked: { id: string; signal?: AbortSignal }): Promise<Recording>;
  /** Remove a segment that is not being written. */
  deleteRecording(asked: { id: string; signal?: AbortSignal }): Promise<Done>;
  /** A segment's frames, or a range of bytes of them: FBS 001.000. Takes the scope see as well. */
  readRecording(asked: { id: string; signal?: AbortSignal }): Promise<Uint8Array>;
  /** What was done in a segment, as lines of JSON. Takes the scope see as well. */
  readRecordedActions(asked: { id: string; signal?: AbortSignal }): Promise<Uint8Array>;
  /** List a directory. */
  listFiles(asked: { path: string; depth?: number; signal?: AbortSignal }): Promise<Entries>;
  /** Remove what stands at a path. */
  removeFile(asked: { path: string; recursive?: boolean; signal?: AbortSignal }): Promise<void>;
  /** Say what stands at a path. */
  getEntry(asked: { path: string; signal?: AbortSignal }): Promise<MarkedEntry>;
  /** Read a file. */
  readFile(asked: { path: string; signal?: AbortSignal }): Promise<Uint8Array>;
  /** Write a file, whole or not at all. */
  writeFile(asked: { path: string; mode?: string; parents?: boolean; overwrite?: boolean; content: Uint8Array | string; signal?: AbortSignal }): Promise<Entry>;
  /** Make a directory. */
  makeDirectory(asked: { path: string; parents?: boolean; signal?: AbortSignal }): Promise<Entry>;
  /** Move a file or directory. */
  moveFile(asked: { source: string; destination: string; overwrite?: boolean; signal?: AbortSignal }): Promise<Entry>;
  /** The changes in a directory, as they happen. */
  watchFiles(asked: { path: string; recursive?: boolean; signal?: AbortSignal }): AsyncGenerator<DesktopEvent, void, void>;
  /** List the directories whose changes are told as events. */
  listFileWatches(asked?: { signal?: AbortSignal }): Promise<Watches>;
  /** Have the changes in a directory told as events. */
  addFileWatch(asked: { path: string; recursive?: boolean; signal?: AbortSignal }): Promise<StartedWatch>;
  /** Have a directory's changes be events no longer. */
  removeFileWatch(asked: { id: string; signal?: AbortSignal }): Promise<void>;
  /** List the processes that run, and those that ended lately. */
  listProcesses(asked?: { signal?: AbortSignal }): Promise<Processes>;
  /** Start a process. */
  startProcess(asked: { command: string | Array<string>; cwd?: string; environment?: Record<string, unknown>; stdin?: boolean; terminal?: unknown; tag?: string; tell_output?: boolean; signal?: AbortSignal }): Promise<StartedProcess>;
  /** Run a command to its end. */
  run(asked: { command: string | Array<string>; cwd?: string; environment?: Record<string, unknown>; stdin?: string; timeout?: number; encoding?: "text" | "base64"; signal?: AbortSignal }): Promise<Ran>;
  /** A process as it is now. */
  getProcess(asked: { number: string; signal?: AbortSignal }): Promise<Process>;
  /** Kill a process with its group. */
  killProcess(asked: { number: string; signal?: AbortSignal }): Promise<Process>;
  /** What a process says, and how it ended. */
  processOutput(asked: { number: string; offset?: number; signal?: AbortSignal }): AsyncGenerator<DesktopEvent, void, void>;
  /** Give a process input. */
  writeProcess(asked: { number: string; close?: boolean; content: Uint8Array | string; signal?: AbortSignal }): Promise<Taken>;
  /** Send a process a signal. */
  signalProcess(asked: { number: string; signal: string; signal?: AbortSignal }): Promise<void>;
  /** Give a process's terminal another size. */
  resizeTerminal(asked: { number: string; columns?: number; rows?: number; signal?: AbortSignal }): Promise<void>;
  /** Output one way; input, signals and sizes the other. */
  attachProcess(asked: { number: string; offset?: number; signal?: AbortSignal }): WebSocket;
}
