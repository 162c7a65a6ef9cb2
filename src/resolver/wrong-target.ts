import { ResolveError } from '../errors.js';

/** The part of a target that does not exist in the cluster. */
export type WrongPart = 'service' | 'port';

/**
 * The error for a target that names a Service or port that the cluster does not have. DNS is not tried then, because it could only hide
 * the mistake.
 */
export class WrongTarget extends ResolveError {
  readonly part: WrongPart;

  /** @param permanent Whether no set can be published at all. Otherwise an empty set is published, and this error explains it. */
  constructor(
    part: WrongPart,
    message: string,
    details: { readonly permanent?: boolean; readonly cause?: unknown } = {},
  ) {
    super(message, details);
    this.part = part;
  }
}

/** The error for a Service whose EndpointSlices do not say who may be called here. Its name in DNS does. */
export class LeftToDns extends ResolveError {
  constructor(message: string) {
    super(message, { permanent: true });
  }
}

/**
 * The error for a port number that could mean several ports, while evenkeel has no permission to read the Service that says which one it
 * is.
 */
export class AmbiguousPort extends ResolveError {
  /** The names of the ports that the number could mean. */
  readonly names: readonly string[];

  constructor(message: string, names: readonly string[], cause?: unknown) {
    super(message, { code: 'EVENKEEL_PORT_AMBIGUOUS', permanent: true, cause });
    this.names = names;
  }
}
