// The desktop panel: noVNC, scaled to the room there is.
import RFB from "@novnc/novnc";
import { socketUrl } from "./session.js";

// One connection; resolves when it is over, to whether it had been open.
export function showDesktop(element, viewOnly, onConnected) {
  return new Promise((resolve) => {
    let opened = false;
    const rfb = new RFB(element, socketUrl("vnc"), { shared: true, wsProtocols: ["binary"] });
    rfb.viewOnly = viewOnly;
    rfb.scaleViewport = true;
    rfb.resizeSession = false;
    rfb.background = "#0d1113";
    rfb.addEventListener("connect", () => {
      opened = true;
      onConnected();
      if (!viewOnly) {
        rfb.focus();
      }
    });
    rfb.addEventListener("disconnect", () => resolve(opened));
  });
}
