/** Request header in which a caller offers that its request be refused. */
export const mayRefuseHeader = 'evenkeel-may-refuse';

/** What a caller says who has another pod for its request, if this one is busier. */
export interface Offer {
  /** How many pods may still refuse the request, this one included. */
  readonly left: number;
  /** Requests in flight on a pod, as the pods of the Service have reported on average. */
  readonly typical: number;
}

/** The value of the header. */
export function formatOffer({ left, typical }: Offer): string {
  return `${left}, ${typical.toFixed(1)}`;
}

/** Undefined if it is not valid. */
export function parseOffer(value: string | undefined): Offer | undefined {
  const [, left, typical] = /^([1-9]), (\d{1,6}\.\d)$/.exec(value ?? '') ?? [];
  return left === undefined ? undefined : { left: Number(left), typical: Number(typical) };
}
