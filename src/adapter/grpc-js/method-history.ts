/**
 * What the calls of one method have shown so far. A channel does not know whether a method streams, but it matters: a quiet
 * subscription does not mean a hanging pod.
 */
export class MethodHistory {
  /** Its path, `/package.Service/Method`. */
  readonly path: string;
  /** A call succeeded with exactly one response. */
  single = false;
  /** A call succeeded with no response, or had several. */
  streaming = false;

  constructor(path = '') {
    this.path = path;
  }
}
