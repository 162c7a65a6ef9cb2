import * as undici from 'undici';
import { EvenkeelError } from '../../index.js';

/** True for undici 7, whose core takes handlers of both forms; undici 8 takes the newer form only. */
export const coreTakesHandlerV1: boolean = !('Dispatcher1Wrapper' in undici);

/** What undici passes as the context of a request to which no interceptor has added anything. */
export const noContext: null | undefined = coreTakesHandlerV1 ? undefined : null;

/**
 * Why this undici's HTTP/2 is not used; undefined if it is. Before 8.10 it endlessly resends a request that a pod keeps rejecting by
 * GOAWAY, which blocks the process. Before 8.5 a POST waits for everything else on the connection, and before 8.4 every request does.
 * 8.0 and 8.1 fail running requests at a GOAWAY.
 *
 * undici does not expose its version. Only the clients of those versions have a field for the PING interval.
 */
export function http2Defect(): string | undefined {
  if (coreTakesHandlerV1) return 'undici 7 (it fails running requests at a GOAWAY';
  const fields = Object.getOwnPropertySymbols(new undici.Client('http://localhost'));
  const isEarly = fields.some(({ description }) => description === 'ping interval');
  return isEarly ? 'undici 8.0 to 8.9 (they send a request without end to a pod that rejects it by GOAWAY' : undefined;
}

/**
 * Throws EVENKEEL_OPTION in runtimes where requests would silently bypass the dispatcher: Bun replaces the package undici with
 * functions of its own, and the `fetch` of Deno ignores dispatchers.
 */
export function checkRuntime(name: string, versions: NodeJS.Dict<string> = process.versions): void {
  const why =
    versions.bun !== undefined
      ? 'Bun puts functions of its own in place of the package undici'
      : versions.deno !== undefined
        ? "Deno's fetch passes over dispatchers"
        : undefined;
  if (why === undefined) return;
  throw new EvenkeelError('EVENKEEL_OPTION', `${name} works on Node.js only: ${why}. evenkeel/node-http works there`);
}
