// Redeems the ticket in the link for a session cookie, and leaves no trace of it in the address bar or the history.
const SHAPE = /^[A-Za-z0-9_-]{20,100}$/;

const TITLES = {
  used: "This link was used already",
  expired: "This link has expired",
  revoked: "This link was revoked",
  unknown: "This link is not known here",
};

function show(title, message, remedy = "") {
  document.getElementById("title").textContent = title;
  document.getElementById("message").textContent = message;
  document.getElementById("remedy").textContent = remedy;
  document.title = `Deskyard: ${title}`;
}

async function redeem(ticket) {
  const answer = await fetch("/redeem", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ticket }),
  });
  if (answer.status === 429) {
    document.body.dataset.error = "rate";
    show("Too many attempts", "Links were opened too often from your address.", "Wait a minute and open it again.");
    return;
  }
  if (answer.status >= 500) {
    throw new Error(`the gateway answers ${answer.status}`);
  }
  const facts = await answer.json();
  if (answer.ok) {
    location.replace(facts.path);
    return;
  }
  document.body.dataset.error = facts.error;
  show(
    TITLES[facts.error] ?? "This link does not work",
    "A link opens one session, once, within ten minutes.",
    "Ask whoever gave it to you for a new one.",
  );
}

async function start() {
  const ticket = location.hash.slice(1);
  history.replaceState(null, "", "/");
  if (!SHAPE.test(ticket)) {
    document.body.dataset.error = "none";
    show("No desktop here", "Open the whole link that you were given.", "It ends in # and a long word.");
    return;
  }
  try {
    await redeem(ticket);
  } catch {
    document.body.dataset.error = "unreachable";
    show("The gateway does not answer", "Your link may still be good.", "Open it again in a minute.");
  }
}

// A second link pasted into the same tab changes only the fragment.
window.addEventListener("hashchange", start);
await start();
