import { AsyncLocalStorage } from 'node:async_hooks';
import type { CallContext } from '../propagation/call-context.js';
import type { ServedCall } from './served-call.js';

/** Finds the request that the running code serves, by Node's AsyncLocalStorage. */
export class ServedContext implements CallContext {
  readonly #storage = new AsyncLocalStorage<ServedCall>();

  current(): ServedCall | undefined {
    return this.#storage.getStore();
  }

  run<T>(call: ServedCall, serve: () => T): T {
    return this.#storage.run(call, serve);
  }
}

/** The context of a backend that was created without `context: true`. It never finds a request. */
export const noContext: CallContext = Object.freeze({ current: () => undefined });
