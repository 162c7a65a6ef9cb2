import { beforeAll, describe, it } from 'vitest';
import { outcomes } from '../../src/endpoint/outcome.js';
import { isEvenkeelError } from '../../src/errors.js';
import { relativeLatency } from '../../src/load/relative-latency.js';
import { reported } from '../../src/load/reported.js';
import { hash } from '../../src/picker/hash.js';
import { leastLoaded } from '../../src/picker/least-loaded.js';
import { p2c } from '../../src/picker/p2c.js';
import { contentsOf, explainCall } from '../../src/recorder/explained.js';
import { flightRecorder } from '../../src/recorder/flight-recorder.js';
import { checksumOf, type DumpHeader } from '../../src/recorder/format.js';
import { podsAt } from '../../src/recorder/pods-at.js';
import { readDump } from '../../src/recorder/read-dump.js';
import { drawIndex, type Rng } from '../../src/runtime/rng.js';
import { stagesOf } from '../../src/stage/standard-stages.js';
import { BalancerFixture } from '../support/fixtures/balancer-fixture.js';
import { CASES, eachCase, enough, LIMIT_MS, oddNumbers, oneOf } from './cases.js';

/** A recording is longer than the other inputs, and every case reads all of it. */
const SHARE = 1 / 20;

const dumps: Uint8Array[] = [];

beforeAll(async () => {
  const configurations = [
    { picker: p2c(), load: relativeLatency(), pods: 12 },
    { picker: leastLoaded(), load: reported(), pods: 4 },
    { picker: hash({ maxLoadRatio: 1.5 }), load: relativeLatency(), pods: 20 },
  ];
  for (const { picker, load, pods } of configurations) {
    const recorder = flightRecorder();
    const fixture = new BalancerFixture({ recorder, picker, load, stages: stagesOf() });
    const publish = (from: number) =>
      fixture.publish(...Array.from({ length: pods }, (_, index) => `10.3.0.${from + index}`));
    await publish(1);
    for (let call = 0; call < 60; call++) {
      if (call === 30) await publish(3);
      const lease = fixture.balancer.pick({ key: call % 2 === 0 ? undefined : `key-${call}` });
      fixture.clock.advance(2);
      const report = { cpuUtilization: 0.3, rpsFractional: call, namedMetrics: { evenkeel_in_flight: call % 7 } };
      lease?.end(call % 9 === 0 ? outcomes.status : { ...outcomes.success, report });
    }
    dumps.push(recorder.dump());
    await fixture.balancer.close({ signal: AbortSignal.abort() });
  }
});

/** Changed somewhere, with checksums that fit: what only damage would not do. */
function changed(rng: Rng): Uint8Array {
  const dump = Uint8Array.from(oneOf(rng, dumps));
  const words = new DataView(dump.buffer);
  const length = words.getUint32(8, true);
  const bodies = 16 + Math.ceil(length / 8) * 8;
  const header = JSON.parse(new TextDecoder().decode(dump.subarray(16, 16 + length))) as DumpHeader;
  const begin = rng.next() < 0.1 ? 16 : bodies;
  for (let left = 1 + drawIndex(rng, 3); left > 0; left--) {
    const at = begin + drawIndex(rng, dump.length - begin - 8);
    const aligned = at - (at % 8);
    const how = drawIndex(rng, 4);
    if (how === 0) dump[at] = drawIndex(rng, 256);
    else if (how === 1) words.setFloat64(aligned, oneOf(rng, oddNumbers), true);
    else if (how === 2) words.setUint32(aligned, oneOf(rng, [0, 2 ** 32 - 1, drawIndex(rng, 2 ** 31)]), true);
    else
      dump.copyWithin(
        aligned,
        bodies + 8 * drawIndex(rng, (dump.length - bodies) / 8),
        dump.length - drawIndex(rng, 64),
      );
  }
  if (rng.next() < 0.05) return dump.subarray(0, drawIndex(rng, dump.length));
  words.setUint32(12, checksumOf(dump.subarray(16, 16 + length)), true);
  if (begin === bodies) {
    const parts = header.parts.map((part) => ({
      ...part,
      checksum: checksumOf(dump.subarray(bodies + part.from * 8, bodies + (part.from + part.units) * 8)),
    }));
    let text = JSON.stringify({ ...header, parts });
    // Checksums differ in length, and the text may not.
    text = text.length > length ? text.slice(0, length) : text.padEnd(length);
    dump.set(new TextEncoder().encode(text), 16);
    words.setUint32(12, checksumOf(dump.subarray(16, 16 + length)), true);
  }
  return dump;
}

describe('a damaged recording', () => {
  it(
    'is read, or refused with EVENKEEL_RECORDING',
    async () => {
      let [read, refused] = [0, 0];
      await eachCase((rng, seed) => {
        if (seed > CASES * SHARE && seed !== Number(process.env.EVENKEEL_SEED)) return;
        const dump = changed(rng);
        try {
          for (const balancer of readDump(dump).balancers) {
            const { calls } = contentsOf(balancer);
            explainCall(balancer, calls.at(-1)?.call ?? 1);
            podsAt(balancer, () => true, seed % 2 === 0 ? undefined : calls[0]?.atMs);
          }
          read++;
        } catch (error) {
          if (!isEvenkeelError(error, 'EVENKEEL_RECORDING')) throw error;
          refused++;
        }
      });
      enough(read, CASES * SHARE * 0.05);
      enough(refused, CASES * SHARE * 0.3);
    },
    LIMIT_MS,
  );
});
