/** What evenkeel changes in requests and responses of Node's servers beyond what Node documents. The tests run on every supported Node. */
import type { HttpRequest, HttpResponse } from './http-requests.js';

/** The property of a response that holds what is called in place of its next `drain` event. */
const heldDrain = Symbol('evenkeel.heldDrain');

interface Marked {
  [heldDrain]?: ((pass: () => void) => void) | undefined;
}

/**
 * Calls `deliver` for every part of a request's body that arrives from now on; the handler gets the part when `pass` is called. Node passes
 * a body on by `push`. A part that is held back is not read on from the connection.
 */
export function holdBody(request: HttpRequest, deliver: (isLast: boolean, pass: () => void) => void): void {
  if (Object.hasOwn(request, 'push')) return;
  const push = request.push.bind(request);
  request.push = (part: unknown, encoding?: BufferEncoding): boolean => {
    let wantsMore = false;
    deliver(part === null, () => {
      wantsMore = push(part, encoding);
    });
    return wantsMore;
  };
}

/** Calls `drained` in place of a response's next `drain` event; the handler gets the event when `pass` is called. */
export function holdDrain(response: HttpResponse, drained: (pass: () => void) => void): void {
  const marked = response as Marked;
  if (!Object.hasOwn(response, heldDrain)) {
    const emit = response.emit.bind(response) as (event: string | symbol, ...values: unknown[]) => boolean;
    response.emit = (event: string | symbol, ...values: unknown[]): boolean => {
      const held = marked[heldDrain];
      if (event !== 'drain' || held === undefined) return emit(event, ...values);
      marked[heldDrain] = undefined;
      held(() => void emit('drain'));
      return true;
    };
  }
  marked[heldDrain] = drained;
}
