/**
 * Wrappers for functions of the application that run while mysql2 is at work, so that what they throw is not taken for an error of a server
 * or a connection.
 */
import type { EventEmitter } from 'node:events';
import type { Readable } from 'node:stream';

/**
 * Wraps a callback of the application, so that what it throws becomes an uncaught exception. An error thrown while mysql2 reads an answer
 * would be taken for an error of the connection, which mysql2 would close without notifying anybody.
 */
export function applicationErrors<Args extends readonly unknown[]>(callback: (...args: Args) => void) {
  return (...args: Args): void => {
    try {
      callback(...args);
    } catch (error) {
      process.nextTick(() => {
        throw error;
      });
    }
  };
}

/** The emitter of a cluster's events; unset until the cluster has been made, when nobody can listen yet. */
export interface Events {
  emitter?: EventEmitter;
}

/** Emits an event. What a listener throws becomes an uncaught exception, later, instead of interrupting evenkeel's work. */
export function tell({ emitter }: Events, event: string, value: unknown): void {
  if (emitter !== undefined && emitter.listenerCount(event) > 0) applicationErrors(() => emitter.emit(event, value))();
}

/** Errors that came from a function of the application. The value says whether mysql2 still read the server's answer to its end. */
const faults = new WeakMap<object, boolean>();

/** Whether a function of the application caused this error. */
export function isApplicationError(error: object): boolean {
  return faults.has(error);
}

/** Whether mysql2 read the server's answer to its end before this error, so that nothing of the answer was left on the connection. */
export function wasReadToItsEnd(error: object): boolean {
  return faults.get(error) === true;
}

/** Marks an error as caused by the application. `what` names the function, in case it threw something other than an Error. */
export function applicationError(error: unknown, what: string, isReadToItsEnd = false): object {
  // mysql2 sets properties on what it catches, so the caught value has to be an object.
  const object = error instanceof Error ? error : new Error(`${what} threw what is no Error`, { cause: error });
  faults.set(object, isReadToItsEnd);
  return object;
}

/** Functions of the application that mysql2 calls while it reads an answer. */
interface OwnFunctions {
  readonly typeCast?: unknown;
  readonly infileStreamFactory?: unknown;
}

type Any = (...args: unknown[]) => unknown;

/** Wraps the application's functions in mysql2's options, so that the errors they throw are marked as the application's. */
export function withApplicationFunctions<Options extends OwnFunctions>(options: Options): Options {
  const { typeCast, infileStreamFactory } = options;
  const isCast = typeof typeCast === 'function';
  const isInfile = typeof infileStreamFactory === 'function';
  if (!isCast && !isInfile) return options;
  return {
    ...options,
    ...(isCast && { typeCast: own(typeCast as Any, 'typeCast') }),
    ...(isInfile && { infileStreamFactory: ownStreams(infileStreamFactory as Any) }),
  };
}

function own(called: Any, what: string): Any {
  return (first, second) => {
    try {
      return called(first, second);
    } catch (error) {
      throw applicationError(error, what);
    }
  };
}

/** Wraps a function that opens streams, so that errors of those streams are marked as the application's too. */
function ownStreams(factory: Any): Any {
  const open = own(factory, 'infileStreamFactory');
  return (path) => {
    const stream = open(path) as Readable;
    // This listener is added before mysql2's. mysql2 then ends the file, and reports the error once the server has answered.
    stream.on('error', (error) => applicationError(error, 'infileStreamFactory', true));
    return stream;
  };
}
