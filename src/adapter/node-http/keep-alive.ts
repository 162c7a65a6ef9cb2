/** A socket is given up this long before the pod would close it, in ms, if the pod allows that much. */
const MARGIN_MS = 2_000;
/** … but at least this long. A pod that allows less gets one request per connection, as with Node's own Agent. */
const MIN_MARGIN_MS = 1_000;

/**
 * How long a socket may be idle, in ms; 0 = it must not be used again.
 *
 * @param limitMs The limit of our own side.
 * @param hint The Keep-Alive header of the last response, such as `timeout=5`.
 */
export function keepAliveMs(limitMs: number, hint: unknown): number {
  const seconds = typeof hint === 'string' ? /(?:^|[\s,;])timeout=(\d{1,9})/i.exec(hint)?.[1] : undefined;
  if (seconds === undefined) return limitMs;
  const endsMs = Number(seconds) * 1_000;
  const marginMs = Math.max(MIN_MARGIN_MS, Math.min(MARGIN_MS, endsMs / 2));
  return Math.max(0, Math.min(limitMs, endsMs - marginMs));
}
