import { ResolveError } from '../errors.js';

/** What the cluster lacks. */
export type WrongPart = 'service' | 'port';

/** A target that names something the cluster does not have. Another discovery mode would only hide that. */
export class WrongTarget extends ResolveError {
  readonly part: WrongPart;

  /** `permanent` if nothing can be published. A Service or port without endpoints is an empty set, and this explains it. */
  constructor(
    part: WrongPart,
    message: string,
    details: { readonly permanent?: boolean; readonly cause?: unknown } = {},
  ) {
    super(message, details);
    this.part = part;
  }
}

/** A port number that could mean several ports, while the Service may not be read (S11). */
export class AmbiguousPort extends ResolveError {
  /** The names of the ports that there are. */
  readonly names: readonly string[];

  constructor(message: string, names: readonly string[], cause?: unknown) {
    super(message, { code: 'EVENKEEL_PORT_AMBIGUOUS', permanent: true, cause });
    this.names = names;
  }
}
