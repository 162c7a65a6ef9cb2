import { asError, isResolveError, ResolveError } from '../errors.js';
import type { Resolution, Resolver } from './resolver.js';

/**
 * A resolver that creates another one when it is first watched, and then does what that one does. If creating it fails, this one reports
 * a permanent failure.
 */
export function deferred(name: string, make: () => Promise<Resolver>): Resolver {
  return {
    name,
    watch(listener, context) {
      let inner: Resolution | undefined;
      let closed = false;
      const start = async (): Promise<void> => {
        try {
          const resolver = await make();
          if (!closed) inner = resolver.watch(listener, context);
        } catch (error) {
          if (closed) return;
          const reason = isResolveError(error)
            ? error
            : new ResolveError(`${name}: ${asError(error).message}`, { permanent: true, cause: error });
          listener.fail(reason);
        }
      };
      // `start` never rejects, because it catches every error.
      void start();
      return {
        refresh: (...news) => inner?.refresh(...news),
        close: () => {
          closed = true;
          inner?.close();
        },
      };
    },
  };
}
