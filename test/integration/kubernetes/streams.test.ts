import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { seededRng } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import { drawIndex } from '../../../src/runtime/rng.js';
import { addresses, sliceObject } from '../../support/fixtures/endpoint-cases.js';
import { until } from '../../support/until.js';
import { atEnd, cleanUpAfterEach, openApi, WatchedService } from './harness.js';

cleanUpAfterEach();

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** 300 in a proof. */
const STREAMS = process.env.EVENKEEL_PROOF === '1' ? 300 : 100;

describe('W7 corrupted streams from an API server', () => {
  it('random streams end in the correct set', async () => {
    const api = await openApi({ historyLimit: 50 });
    const rng = seededRng(8);
    const names = Object.keys(addresses).filter((name) => name !== 'a6');
    const write = (): void => {
      const members = names.filter(() => rng.next() < 0.6).map((name) => `${name}${'RNT'[drawIndex(rng, 3)]}`);
      api.slices.put(sliceObject(`s${drawIndex(rng, 4)}`, members.join(' ')));
    };
    for (let index = 0; index < 8; index++) write();
    const service = new WatchedService(api, { port: 'http' });
    await until('the first set', () => service.listener.endpoints !== undefined);
    api.mangle((line) => {
      const at = drawIndex(rng, line.length);
      const [head, tail] = [line.subarray(0, at), line.subarray(at)];
      switch (drawIndex(rng, 7)) {
        case 0:
          return { pieces: [head], after: 'end' };
        case 1:
          return { pieces: [head], after: 'reset' };
        case 2:
          return { pieces: [Buffer.from('{"type":\n'), line] };
        case 3:
          return { pieces: [head, Buffer.of(0xff), tail] };
        case 4:
          return { pieces: [line], after: 'end' };
        case 5:
          return { pieces: [line, line] };
        default:
          return { pieces: [head, tail] };
      }
    });
    for (let round = 1; round <= 10; round++) {
      const goal = (round * STREAMS) / 10;
      await service.pass(
        `${goal} streams`,
        () => {
          if (api.counts.openWatches > 0) write();
          return api.counts.watches >= goal;
        },
        1_000,
        10_000_000,
      );
    }
    api.mangle(undefined);
    // The set that a second look from scratch finds, by a resolver of its own.
    const fresh = new WatchedService(api, { port: 'http' });
    const text = (each: WatchedService): string | undefined =>
      each.listener.endpoints?.map(({ key, conditions }) => `${key} ${JSON.stringify(conditions)}`).join('\n');
    await service.pass('in step', () => text(fresh) !== undefined && text(service) === text(fresh), 200);
    expect(api.counts.watches).toBeGreaterThanOrEqual(STREAMS);
  });
});

describe('W13 the process', () => {
  const program = `
    import { endpointSlices } from ${JSON.stringify(`${root}dist/resolver/kubernetes/index.js`)};
    import { systemClock, systemRng } from ${JSON.stringify(`${root}dist/index.js`)};
    const resolver = endpointSlices({
      namespace: 'shop', service: 'orders', port: 'http', apiServer: process.argv[2],
    });
    const hold = setInterval(() => {}, 1_000);
    resolver.watch(
      { update(set) { process.stdout.write('set ' + set.length + '\\n'); }, fail() {}, fresh() {} },
      { clock: systemClock, rng: systemRng, observer: {} },
    );
    // The parent says when the watch is open; from then on nothing but the watch is there.
    process.stdin.once('data', () => { clearInterval(hold); process.stdin.destroy(); process.stdout.write('idle\\n'); });
  `;

  it('ends although a watch is open', async () => {
    const api = await openApi();
    api.slices.put(sliceObject('s1', 'aR bR'));
    await new Promise<void>((resolve, reject) => {
      spawn(process.execPath, ['scripts/build.mjs'], { cwd: root, stdio: 'ignore' }).on('exit', (code) =>
        code === 0 ? resolve() : reject(new Error('the build failed')),
      );
    });
    const file = `${root}node_modules/.cache/evenkeel-watch.mjs`;
    await writeFile(file, program);
    const child = spawn(process.execPath, [file, api.url], { stdio: ['pipe', 'pipe', 'inherit'] });
    atEnd(() => {
      child.kill('SIGKILL');
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    await until('the child watches', () => output.includes('set 2') && api.counts.openWatches === 1);
    child.stdin.write('go\n');
    await until('the child is idle', () => output.includes('idle') || child.exitCode !== null);
    await until('it ended by itself', () => child.exitCode !== null);
  });
});
