/** What the benchmarks of a fleet rest on: that every contender's calls do their work on its pods, over each protocol. */

import type { ChildProcess } from 'node:child_process';
import { afterEach, expect, it } from 'vitest';
import { titleOf } from '../../support/title-of.js';

interface Child {
  readonly said: { readonly ports: readonly number[] };
  readonly port: number;
  readonly process: ChildProcess;
  stop(): void;
}
interface Contender {
  call(workMs: number): Promise<unknown>;
  renew?(): void;
  close(): Promise<unknown>;
}

const isProof = process.env.EVENKEEL_PROOF === '1';
const lib = (file: string) => import(new URL(`../../bench/lib/${file}`, import.meta.url).href);
const { startChild } = (await lib('children.mjs')) as {
  startChild(name: string, args: readonly string[]): Promise<Child>;
};
const { createContender } = (await lib('fleet-contenders.mjs')) as {
  createContender(placed: object): Promise<Contender>;
};

const children: Child[] = [];
async function start(name: string, args: readonly string[]): Promise<Child> {
  const child = await startChild(name, args);
  children.push(child);
  return child;
}
afterEach(() => {
  for (const child of children.splice(0)) child.stop();
});

const WORK_MS = 20;
const PODS = 2;

it.runIf(isProof).each([
  ['http', 'stock'],
  ['http', 'default'],
  ['http', 'roundRobin'],
  ['grpc', 'stock'],
  ['grpc', 'roundRobin'],
  ['grpc', 'default'],
  ['postgres', 'stock'],
  ['postgres', 'poolPerServer'],
  ['postgres', 'default'],
])(
  titleOf(
    '%s, %s: every call does its work on a core, and none is lost when connections are renewed',
    isProof,
    'npm run proof -- bench',
  ),
  async (protocol, kind) => {
    const pods = await start('virtual-pods.mjs', [String(PODS), protocol, '0', '']);
    const { ports } = pods.said;
    const balancer = kind === 'stock' ? await start('connection-balancer.mjs', ports.map(String)) : undefined;
    const contender = await createContender({
      protocol,
      kind,
      ports: balancer === undefined ? ports : [balancer.port],
    });
    const calls = 6;
    await Promise.all(Array.from({ length: calls }, () => contender.call(WORK_MS)));
    const running = contender.call(WORK_MS);
    contender.renew?.();
    await Promise.all([running, contender.call(WORK_MS)]);
    await contender.close();
    const done = new Promise<readonly number[]>((resolve) =>
      pods.process.once('message', ({ lateMs }: { readonly lateMs: readonly number[] }) => resolve(lateMs)),
    );
    pods.process.send({ late: true });
    expect(await done).toHaveLength(calls + 2);
  },
);

it('a misspelled contender is refused by name', async () => {
  await expect(createContender({ protocol: 'grpc', kind: 'rondRobin', ports: [] })).rejects.toThrow('no rondRobin');
});
