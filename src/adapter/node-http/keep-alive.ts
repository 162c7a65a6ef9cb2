/** A socket is given up this long before the pod would end it, in ms, where the pod leaves time for that. */
const MARGIN_MS = 2_000;
/** … and never later than this; a pod that leaves less gets one request per connection. Node's own Agent does so too. */
const MIN_MARGIN_MS = 1_000;

/**
 * How long a socket may be idle, in ms; 0 = it is not to be used again.
 *
 * @param limitMs What our own side allows.
 * @param hint The Keep-Alive header of the last answer, such as `timeout=5`.
 */
export function keepAliveMs(limitMs: number, hint: unknown): number {
  const seconds = typeof hint === 'string' ? /(?:^|[\s,;])timeout=(\d{1,9})/i.exec(hint)?.[1] : undefined;
  if (seconds === undefined) return limitMs;
  const endsMs = Number(seconds) * 1_000;
  const marginMs = Math.max(MIN_MARGIN_MS, Math.min(MARGIN_MS, endsMs / 2));
  return Math.max(0, Math.min(limitMs, endsMs - marginMs));
}
