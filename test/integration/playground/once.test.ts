import { availableParallelism, loadavg } from 'node:os';
import { describe, expect, type TestContext, test } from 'vitest';
import { type Judgement, type JudgeOptions, judgeRun } from '../../support/once-judgement.js';
import { startPlayground } from '../../support/programs/playground.js';

declare module 'vitest' {
  interface TaskMeta {
    /** What this machine was too busy to show. `npm test` prints it. */
    notJudged?: readonly string[];
  }
}

/** Two runs on a busy machine, where each may take several minutes. */
const LIMIT_MS = 600_000;

async function playOnce(options: JudgeOptions): Promise<Judgement & { readonly transcript: string }> {
  const ended = await startPlayground('--once', ...(options.picker ? ['--picker', options.picker] : [])).ended;
  const machine = { loadPerCore: (loadavg()[0] as number) / availableParallelism() };
  return { ...judgeRun(ended, machine, options), transcript: `${ended.stderr}\n${ended.stdout}` };
}

/** Plays, once more if the machine was too busy to show anything, and says what was not judged. */
async function expectToHold({ task, skip }: TestContext, options: JudgeOptions): Promise<void> {
  const first = await playOnce(options);
  const last = first.broken.length === 0 && first.showsNothing ? await playOnce(options) : first;
  task.meta.notJudged = last.notJudged;
  expect(last.broken, last.transcript).toEqual([]);
  if (last.showsNothing) skip(`this machine was too busy: ${last.notJudged.join('; ')}`);
}

/** Without options in every run; the other picker, which takes as long again, in the proof (`npm run proof -- playground`). */
const rows: readonly { readonly title: string; readonly options: JudgeOptions }[] = [
  { title: 'plays every phase, loses no request through evenkeel and spreads them evenly', options: {} },
  ...(process.env.EVENKEEL_PROOF === '1'
    ? [{ title: 'takes turns to the request with --picker round-robin', options: { picker: 'round-robin' as const } }]
    : []),
];

describe('npm start -- --once', () => {
  for (const { title, options } of rows)
    test(title, { timeout: LIMIT_MS }, (context) => expectToHold(context, options));
});
