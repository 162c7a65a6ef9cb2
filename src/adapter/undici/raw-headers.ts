import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';

/** What controllers of undici show of the head and the end of an answer. */
export type RawHeaders = Buffer[] | string[] | IncomingHttpHeaders | null;

/** An undici before 7.28 gives its controllers no raw headers, and the fetch of Node 26 looks at nothing else. */
export function withRawHeaders(controller: Dispatcher.DispatchController, headers: IncomingHttpHeaders): void {
  if (controller.rawHeaders === undefined) Object.assign(controller, { rawHeaders: headers });
}
