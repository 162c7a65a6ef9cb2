import { ResolveError } from '../errors.js';

/** What the cluster does not have. */
export type WrongPart = 'service' | 'port';

/** A target that names what the cluster does not have: another way of looking for it would only hide that. */
export class WrongTarget extends ResolveError {
  readonly part: WrongPart;

  /** `permanent` where nothing can be published; a Service or port without endpoints is an empty set, and this says why. */
  constructor(
    part: WrongPart,
    message: string,
    details: { readonly permanent?: boolean; readonly cause?: unknown } = {},
  ) {
    super(message, details);
    this.part = part;
  }
}

/** A port number that could be any of several ports, and the Service may not be asked which (S11). */
export class AmbiguousPort extends ResolveError {
  /** The names it could be. */
  readonly names: readonly string[];

  constructor(message: string, names: readonly string[], cause?: unknown) {
    super(message, { code: 'EVENKEEL_PORT_AMBIGUOUS', permanent: true, cause });
    this.names = names;
  }
}
