import { AsyncLocalStorage } from 'node:async_hooks';
import type { CallContext } from '../propagation/call-context.js';
import type { ServedCall } from './served-call.js';

/** Knows which request the running code serves. */
export class ServedContext implements CallContext {
  readonly #storage = new AsyncLocalStorage<ServedCall>();

  current(): ServedCall | undefined {
    return this.#storage.getStore();
  }

  run<T>(call: ServedCall, serve: () => T): T {
    return this.#storage.run(call, serve);
  }
}

/** The context of a pod that was created without `context: true`: no code serves a request. */
export const noContext: CallContext = Object.freeze({ current: () => undefined });
