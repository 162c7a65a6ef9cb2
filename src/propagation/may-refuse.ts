/** Request header in which a caller offers that its request be refused. */
export const mayRefuseHeader = 'evenkeel-may-refuse';

/** What a caller says if it has another pod for its request, should this one be busier. */
export interface Offer {
  /** How many pods may still refuse the request, this one included. */
  readonly left: number;
  /** Requests in flight on a pod, as the pods of the Service have reported on average. */
  readonly typical: number;
}

/** Formats an offer as the value of the header `mayRefuseHeader`. */
export function formatOffer({ left, typical }: Offer): string {
  return `${left}, ${typical.toFixed(1)}`;
}

/** Reads an offer from the value of the header `mayRefuseHeader`; undefined if it is not valid. */
export function parseOffer(value: string | undefined): Offer | undefined {
  const [, left, typical] = /^([1-9]), (\d{1,6}\.\d)$/.exec(value ?? '') ?? [];
  return left === undefined ? undefined : { left: Number(left), typical: Number(typical) };
}
