import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { sectionOf, textOf } from '../../support/docs-page.js';
import { runProgram } from '../../support/programs/consumer.js';

it('docs/guide/errors-people-search.md: the program about keep-alive ends as the page says', async () => {
  const section = sectionOf(textOf('docs/guide/errors-people-search.md'), 'ECONNRESET on keep-alive');
  const program = /```js\n([\s\S]*?)```/.exec(section)?.[1] ?? '';
  const folder = await mkdtemp(join(tmpdir(), 'evenkeel-guide-'));
  try {
    await writeFile(join(folder, 'main.mjs'), program);
    const { stdout } = await runProgram(process.execPath, ['main.mjs'], folder);
    expect(stdout).toBe('ok\nsocket hang up\n');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
