import { ResolveError } from '../errors.js';

/** What the cluster lacks of a target: the Service, or its port. */
export type WrongPart = 'service' | 'port';

/** The error for a target that names something the cluster does not have. Another discovery mode would only hide that. */
export class WrongTarget extends ResolveError {
  readonly part: WrongPart;

  /** @param permanent Whether nothing can be published. A Service or port without endpoints is an empty set, and this error explains it. */
  constructor(
    part: WrongPart,
    message: string,
    details: { readonly permanent?: boolean; readonly cause?: unknown } = {},
  ) {
    super(message, details);
    this.part = part;
  }
}

/** The error for a port number that could mean several ports, while the Service object may not be read. */
export class AmbiguousPort extends ResolveError {
  /** The names of the ports that the number could mean. */
  readonly names: readonly string[];

  constructor(message: string, names: readonly string[], cause?: unknown) {
    super(message, { code: 'EVENKEEL_PORT_AMBIGUOUS', permanent: true, cause });
    this.names = names;
  }
}
