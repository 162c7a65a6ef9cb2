import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { type ProgramResult, runProgram } from '../../support/programs/consumer.js';
import { buildPackage } from '../../support/programs/programs.js';

beforeAll(buildPackage);

/** Runs a program of this folder to its end. */
const run = (program: string, args: readonly string[], nodeArgs: readonly string[] = []): Promise<ProgramResult> =>
  runProgram(process.execPath, [...nodeArgs, join(import.meta.dirname, program), ...args], import.meta.dirname);

/** What a program said before it ended by itself. It would run for minutes if a timer of ours held it. */
async function outputOf(way: string): Promise<string[]> {
  const { code, stdout, stderr } = await run('lifetime-program.mjs', [way]);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return stdout.trim().split('\n');
}

describe('the process of a balancer', () => {
  it('ends when nothing waits, though the balancer is open, connects and backs off', async () => {
    expect(await outputOf('idle')).toEqual([...Array.from({ length: 10 }, () => '10.0.0.1'), 'done']);
  });

  it('ends though a call never ended', async () => {
    expect(await outputOf('forgotten')).toEqual(['10.0.0.1', 'done']);
  });

  it('lives as long as a caller waits for an endpoint', async () => {
    expect(await outputOf('waiting')).toEqual(['EVENKEEL_NOT_READY', 'done']);
  });

  it('lives as long as a caller waits in ready()', async () => {
    expect(await outputOf('starting')).toEqual(['EVENKEEL_NOT_READY', 'done']);
  });

  it('lives until closing has ended', async () => {
    expect(await outputOf('closing')).toEqual(['closed', 'done']);
  });
});

/** `npm run proof -- core` has 100,000. */
const ADDS = process.env.EVENKEEL_PROOF === '1' ? 100_000 : 20_000;

describe('churn', () => {
  it('of endpoints with calls leaves less than 10 bytes per endpoint, and no timer, connection or listener', async () => {
    const { code, stdout, stderr } = await run('churn-program.mjs', [String(ADDS)], ['--expose-gc']);
    expect(stderr).toBe('');
    expect(code).toBe(0);
    const left = JSON.parse(stdout);
    expect(left).toMatchObject({ adds: ADDS, shown: 100, timers: 0, open: 0, warned: 0, listeners: 0 });
    expect(left.handles).toEqual([]);
    expect(left.grewBytes).toBeLessThan(10 * ADDS);
  });
});
