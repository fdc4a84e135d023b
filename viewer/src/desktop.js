// The desktop panel: noVNC, scaled to the room there is.
import RFB from "@novnc/novnc";
import { socketUrl } from "./session.js";

let screen = null;
let driving = false;

// Whether keys and pointer are sent at all. The gateway refuses them from those who do not drive, whatever is said here.
export function setDriving(value) {
  driving = value;
  if (screen && screen.viewOnly === value) {
    screen.viewOnly = !value;
    if (value) {
      screen.focus();
    }
  }
}

// Give the keyboard to the desktop, where this page drives.
export function focusDesktop() {
  if (screen && driving) {
    screen.focus();
  }
}

// One connection, to the screen or to a stream of a part of it; resolves when it is over, to whether it had been open.
export function showDesktop(element, onConnected, stream = "") {
  return new Promise((resolve) => {
    let opened = false;
    const rfb = new RFB(element, socketUrl(stream ? `vnc/${stream}` : "vnc"), { shared: true, wsProtocols: ["binary"] });
    screen = rfb;
    rfb.viewOnly = !driving;
    rfb.scaleViewport = true;
    rfb.resizeSession = false;
    rfb.background = "#0d1113";
    rfb.addEventListener("connect", () => {
      opened = true;
      onConnected();
      if (driving) {
        rfb.focus();
      }
    });
    rfb.addEventListener("disconnect", () => resolve(opened));
  });
}
