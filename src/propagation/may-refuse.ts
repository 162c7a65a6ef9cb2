/** Request header with which a caller offers that the pod may refuse its request, because it has other pods. */
export const mayRefuseHeader = 'evenkeel-may-refuse';

/** What the caller says in its offer that the request may be refused. */
export interface Offer {
  /** How many pods may still refuse the request, including this one. */
  readonly left: number;
  /** How many requests a pod of the Service has in flight on average, by the pods' own reports. */
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
