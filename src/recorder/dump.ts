import { timeOfDay } from '../runtime/wall-clock.js';
import { checksumOf, type DumpHeader, MAGIC, UNIT } from './format.js';
import type { Part, PartWriter } from './parts.js';
import { Pseudonyms } from './pseudonyms.js';

/** Serializes the parts of a recording in the format of `format.ts`. */
export function writeDump(parts: readonly Part[], pseudonymous: boolean, leftOut: number): Uint8Array<ArrayBuffer> {
  const tracks: PartWriter[] = [];
  const pseudonyms = pseudonymous ? new Pseudonyms() : undefined;
  const bodies: Uint8Array[] = [];
  const listed: { balancer: number; from: number; units: number; checksum: number }[] = [];
  let from = 0;
  for (const { track, buffer, units } of parts) {
    let balancer = tracks.indexOf(track);
    if (balancer === -1) balancer = tracks.push(track) - 1;
    const written = new Uint8Array(buffer, 0, units * UNIT);
    const body = pseudonyms === undefined ? written : pseudonyms.rewrite(written, balancer);
    bodies.push(body);
    listed.push({ balancer, from, units: body.length / UNIT, checksum: checksumOf(body) });
    from += body.length / UNIT;
  }
  const header: DumpHeader = {
    madeAt: timeOfDay(),
    pseudonyms: pseudonymous,
    balancers: tracks.map(({ name, configuration, nowMs, isClosed }, index) => ({
      name: pseudonymous ? `service-${index + 1}` : name,
      configuration,
      nowMs,
      closed: isClosed,
    })),
    parts: listed,
    leftOut,
  };
  const text = new TextEncoder().encode(JSON.stringify(header));
  const textUnits = Math.ceil(text.length / UNIT);
  const dump = new Uint8Array((2 + textUnits + from) * UNIT);
  dump.set(MAGIC);
  const words = new DataView(dump.buffer);
  words.setUint32(8, text.length, true);
  words.setUint32(12, checksumOf(text), true);
  dump.set(text, 2 * UNIT);
  let at = (2 + textUnits) * UNIT;
  for (const body of bodies) {
    dump.set(body, at);
    at += body.length;
  }
  return dump;
}
