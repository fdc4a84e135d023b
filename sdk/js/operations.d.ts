// Written by generate.js from ../openapi.json. Do not edit.

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
  act(asked: { actions: Array<Record<string, unknown>>; return?: Record<string, unknown>; wait?: Record<string, unknown>; id?: string; signal?: AbortSignal }): Promise<any>;
  /** Take a picture of the screen, of a region or of a window; as JSON where that is accepted. */
  screen(asked?: { region?: string; window?: string; format?: string; max?: string; if_changed?: string; scale?: number; cursor?: boolean; signal?: AbortSignal }): Promise<any>;
  /** List the windows, the topmost last. */
  listWindows(asked?: { signal?: AbortSignal }): Promise<any>;
  /** Put several windows side by side. */
  tileWindows(asked: { windows: Array<number>; arrangement?: string; signal?: AbortSignal }): Promise<any>;
  /** Focus, move, resize, minimise, maximise, restore, raise, lower or close a window, or fill the screen with it. */
  doWithWindow(asked: { id: string; action: string; x?: number; y?: number; width?: number; height?: number; signal?: AbortSignal }): Promise<any>;
  /** Read the clipboard's text, or its picture with format=png (an answer of image/png). */
  getClipboard(asked?: { format?: string; signal?: AbortSignal }): Promise<any>;
  /** Put a text on the clipboard, or a picture as image/png. */
  setClipboard(asked?: { text?: string; content?: Uint8Array; signal?: AbortSignal }): Promise<any>;
  /** Say who drives: a person or the agent. */
  getDrive(asked?: { signal?: AbortSignal }): Promise<any>;
  /** Hand the drive over. */
  setDrive(asked: { driver: string; signal?: AbortSignal }): Promise<any>;
  /** Say whether a person wants privacy: then nothing is seen or done until the event privacy.off, and this is refused as well through a gateway. */
  getPrivacy(asked?: { signal?: AbortSignal }): Promise<any>;
  /** Wait for an event. */
  wait(asked: { event: string; match?: Record<string, unknown>; after?: number; within_ms?: number; quiet_ms?: number; region?: Array<number>; signal?: AbortSignal }): Promise<any>;
  /** What happens, as it happens. */
  events(asked?: { after?: number; events?: string; signal?: AbortSignal }): AsyncGenerator<DesktopEvent, void, void>;
  /** The same as messages of a WebSocket. */
  openEvents(asked?: { after?: number; events?: string; signal?: AbortSignal }): WebSocket;
  /** What programs show by their own names. */
  accessibilityTree(asked?: { application?: string; window?: string; node?: string; depth?: number; nodes?: number; details?: boolean; hidden?: boolean; within_ms?: number; signal?: AbortSignal }): Promise<any>;
  /** Find nodes by role, name and states. */
  accessibilityFind(asked?: { role?: string; name?: string; exact?: boolean; states?: Array<string>; application?: string; window?: unknown; node?: string; hidden?: boolean; nodes?: number; within_ms?: number; signal?: AbortSignal }): Promise<any>;
  /** Do what a node offers. */
  accessibilityInvoke(asked: { node: string; within_ms?: number; action?: string; signal?: AbortSignal }): Promise<any>;
  /** Write into a node, or set its value. */
  accessibilitySet(asked: { node: string; within_ms?: number; text?: string; value?: number; signal?: AbortSignal }): Promise<any>;
  /** Give a node the keyboard. */
  accessibilityFocus(asked: { node: string; within_ms?: number; signal?: AbortSignal }): Promise<any>;
  /** List what the menu has. */
  listApplications(asked?: { signal?: AbortSignal }): Promise<any>;
  /** Start an application or a command, or open a file or address, and wait for its window. */
  launch(asked?: { application?: string; targets?: Array<string>; open?: string; command?: string | Array<string>; wait?: string; within_ms?: number; signal?: AbortSignal }): Promise<any>;
  /** The browser of programs, and its pages. */
  describeDevtools(asked?: { signal?: AbortSignal }): Promise<any>;
  /** Start the browser of programs unless it runs. */
  startDevtools(asked?: { within_ms?: number; signal?: AbortSignal }): Promise<any>;
  /** End the browser of programs. */
  endDevtools(asked?: { signal?: AbortSignal }): Promise<any>;
  /** Speak Chromium's DevTools protocol with the whole browser, which is started if need be. */
  openDevtools(asked?: { signal?: AbortSignal }): WebSocket;
  /** Speak Chromium's DevTools protocol with a page. */
  openDevtoolsPage(asked: { id: string; signal?: AbortSignal }): WebSocket;
  /** List the streams. */
  listStreams(asked?: { signal?: AbortSignal }): Promise<any>;
  /** Make a stream of the screen, a region or a window. */
  createStream(asked?: { window?: unknown; region?: Array<number>; screen?: boolean; signal?: AbortSignal }): Promise<any>;
  /** A stream as it is now. */
  getStream(asked: { id: string; signal?: AbortSignal }): Promise<any>;
  /** End a stream, with those who look at it. */
  deleteStream(asked: { id: string; signal?: AbortSignal }): Promise<any>;
  /** Look at a stream: RFB 3.8 in binary messages. */
  openStream(asked: { id: string; signal?: AbortSignal }): WebSocket;
  /** Whether the screen is recorded, and the segments that there are. */
  listRecordings(asked?: { after?: string; most?: number; signal?: AbortSignal }): Promise<any>;
  /** A segment as it is now. */
  getRecording(asked: { id: string; signal?: AbortSignal }): Promise<any>;
  /** Remove a segment that is not being written. */
  deleteRecording(asked: { id: string; signal?: AbortSignal }): Promise<any>;
  /** A segment's frames, or a range of bytes of them: FBS 001.000. Takes the scope see as well. */
  readRecording(asked: { id: string; signal?: AbortSignal }): Promise<Uint8Array>;
  /** What was done in a segment, as lines of JSON. Takes the scope see as well. */
  readRecordedActions(asked: { id: string; signal?: AbortSignal }): Promise<Uint8Array>;
  /** List a directory. */
  listFiles(asked: { path: string; depth?: number; signal?: AbortSignal }): Promise<any>;
  /** Remove what stands at a path. */
  removeFile(asked: { path: string; recursive?: boolean; signal?: AbortSignal }): Promise<void>;
  /** Say what stands at a path. */
  getEntry(asked: { path: string; signal?: AbortSignal }): Promise<any>;
  /** Read a file. */
  readFile(asked: { path: string; signal?: AbortSignal }): Promise<Uint8Array>;
  /** Write a file, whole or not at all. */
  writeFile(asked: { path: string; mode?: string; parents?: boolean; overwrite?: boolean; content: Uint8Array | string; signal?: AbortSignal }): Promise<any>;
  /** Make a directory. */
  makeDirectory(asked: { path: string; parents?: boolean; signal?: AbortSignal }): Promise<any>;
  /** Move a file or directory. */
  moveFile(asked: { source: string; destination: string; overwrite?: boolean; signal?: AbortSignal }): Promise<any>;
  /** The changes in a directory, as they happen. */
  watchFiles(asked: { path: string; recursive?: boolean; signal?: AbortSignal }): AsyncGenerator<DesktopEvent, void, void>;
  /** List the directories whose changes are told as events. */
  listFileWatches(asked?: { signal?: AbortSignal }): Promise<any>;
  /** Have the changes in a directory told as events. */
  addFileWatch(asked: { path: string; recursive?: boolean; signal?: AbortSignal }): Promise<any>;
  /** Have a directory's changes be events no longer. */
  removeFileWatch(asked: { id: string; signal?: AbortSignal }): Promise<void>;
  /** List the processes that run, and those that ended lately. */
  listProcesses(asked?: { signal?: AbortSignal }): Promise<any>;
  /** Start a process. */
  startProcess(asked: { command: string | Array<string>; cwd?: string; environment?: Record<string, unknown>; stdin?: boolean; terminal?: unknown; tag?: string; tell_output?: boolean; signal?: AbortSignal }): Promise<any>;
  /** Run a command to its end. */
  run(asked: { command: string | Array<string>; cwd?: string; environment?: Record<string, unknown>; stdin?: string; timeout?: number; encoding?: string; signal?: AbortSignal }): Promise<any>;
  /** A process as it is now. */
  getProcess(asked: { number: string; signal?: AbortSignal }): Promise<any>;
  /** Kill a process with its group. */
  killProcess(asked: { number: string; signal?: AbortSignal }): Promise<any>;
  /** What a process says, and how it ended. */
  processOutput(asked: { number: string; offset?: number; signal?: AbortSignal }): AsyncGenerator<DesktopEvent, void, void>;
  /** Give a process input. */
  writeProcess(asked: { number: string; close?: boolean; content: Uint8Array | string; signal?: AbortSignal }): Promise<any>;
  /** Send a process a signal. */
  signalProcess(asked: { number: string; signal: string; signal?: AbortSignal }): Promise<void>;
  /** Give a process's terminal another size. */
  resizeTerminal(asked: { number: string; columns?: number; rows?: number; signal?: AbortSignal }): Promise<void>;
  /** Output one way; input, signals and sizes the other. */
  attachProcess(asked: { number: string; offset?: number; signal?: AbortSignal }): WebSocket;
}
