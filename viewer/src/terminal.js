// The terminal panel: xterm.js speaking ttyd's protocol.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { socketUrl } from "./session.js";

const INPUT = "0";
const RESIZE = "1";
const OUTPUT = "0".charCodeAt(0);

export function createTerminal(element) {
  const terminal = new Terminal({
    cursorBlink: true,
    fontFamily: '"DejaVu Sans Mono", "Liberation Mono", Menlo, Consolas, monospace',
    fontSize: 13,
    scrollback: 5000,
    theme: { background: "#101416", foreground: "#dfe7e7" },
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(element);
  new ResizeObserver(() => element.clientHeight > 0 && fit.fit()).observe(element);
  return terminal;
}

// One connection; resolves when it is over, to whether it had been open.
export function connectTerminal(terminal, onConnected) {
  return new Promise((resolve) => {
    let opened = false;
    const encoder = new TextEncoder();
    const socket = new WebSocket(socketUrl("terminal"), ["tty"]);
    socket.binaryType = "arraybuffer";
    const send = (kind, text) => {
      if (socket.readyState === WebSocket.OPEN) {
        socket.send(encoder.encode(kind + text));
      }
    };
    const size = () => JSON.stringify({ columns: terminal.cols, rows: terminal.rows });
    const listeners = [
      terminal.onData((text) => send(INPUT, text)),
      terminal.onBinary((text) => {
        const bytes = Uint8Array.from(INPUT + text, (letter) => letter.charCodeAt(0));
        if (socket.readyState === WebSocket.OPEN) {
          socket.send(bytes);
        }
      }),
      terminal.onResize(() => send(RESIZE, size())),
    ];
    socket.addEventListener("open", () => {
      opened = true;
      // ttyd starts its program on this message; the gateway has checked who asks, so the token is empty.
      socket.send(encoder.encode(JSON.stringify({ AuthToken: "", columns: terminal.cols, rows: terminal.rows })));
      terminal.reset();
      onConnected();
    });
    socket.addEventListener("message", ({ data }) => {
      const bytes = new Uint8Array(data);
      // Titles and preferences of the far side are not taken over: only what belongs on the screen.
      if (bytes[0] === OUTPUT) {
        terminal.write(bytes.subarray(1));
      }
    });
    socket.addEventListener("close", () => {
      for (const listener of listeners) {
        listener.dispose();
      }
      resolve(opened);
    });
  });
}
