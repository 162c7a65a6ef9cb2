import type { Readable } from 'node:stream';
import { ownFault } from './own-faults.js';

/** Functions of the application that mysql2 calls while it reads an answer. */
interface OwnFunctions {
  readonly typeCast?: unknown;
  readonly infileStreamFactory?: unknown;
}

type Any = (...given: unknown[]) => unknown;

/** mysql2's options with the application's functions wrapped: what they throw is known from then on as its own. */
export function withOwnFunctions<Options extends OwnFunctions>(options: Options): Options {
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
      throw ownFault(error, what);
    }
  };
}

/** The errors of the streams it makes are the application's, too. */
function ownStreams(factory: Any): Any {
  const open = own(factory, 'infileStreamFactory');
  return (path) => {
    const stream = open(path) as Readable;
    // Heard before mysql2 hears it, which does not have the stream yet.
    // It then ends the file, and tells of the error when the server has answered that.
    stream.on('error', (error) => ownFault(error, 'infileStreamFactory', true));
    return stream;
  };
}
