import { isObject, textOf } from './unchecked.js';

/** The parts of a Kubernetes Status object that evenkeel uses. The API server sends such an object with every error. */
export interface StatusFacts {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  /** Whether the Status object says that the requested resource version does not exist yet. */
  readonly tooLarge: boolean;
  readonly retryAfterMs: number | undefined;
}

/** Reads a Status object. A value of any other type results in empty fields. */
export function parseStatus(value: unknown): StatusFacts {
  const status = isObject(value) ? value : {};
  const details = isObject(status.details) ? status.details : {};
  const causes = Array.isArray(details.causes) ? (details.causes as readonly unknown[]) : [];
  const seconds = details.retryAfterSeconds;
  return {
    code: typeof status.code === 'number' ? status.code : 0,
    reason: textOf(status.reason) ?? '',
    message: textOf(status.message) ?? '',
    tooLarge: causes.some((cause) => isObject(cause) && cause.reason === 'ResourceVersionTooLarge'),
    retryAfterMs: typeof seconds === 'number' && seconds > 0 ? Math.min(seconds, 600) * 1_000 : undefined,
  };
}
