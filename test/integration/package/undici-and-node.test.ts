import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Consumer } from '../../support/programs/consumer.js';

/** What a program says when it is ended by an error, less the path. */
const told = (stderr: string): string[] => stderr.split('\n').filter((line) => /Error: |code: /.test(line));

const ways = {
  'an import': [
    'import.mjs',
    `import { createDispatcher } from 'evenkeel/undici';\nconsole.log(typeof createDispatcher);`,
  ],
  'an import() that is caught': [
    'dynamic.mjs',
    `import('evenkeel/undici').catch((error) => console.error(String(error), 'code: ' + error.code, error.cause.name));`,
  ],
  require: [
    'require.cjs',
    `const { createDispatcher } = require('evenkeel/undici');\nconsole.log(typeof createDispatcher);`,
  ],
} as const;

describe.runIf(/^v2[01]\./.test(process.version))('undici 8 on a Node that it does not support', () => {
  let consumer: Consumer;
  beforeAll(async () => {
    consumer = await Consumer.create(inject('installed'), [['undici', 'undici8']]);
  });
  afterAll(() => consumer.remove());

  test.each(Object.entries(ways))('%s says which undici fits', async (_name, [file, source]) => {
    const { stdout, stderr } = await consumer.run(file, source);
    expect(stdout).toBe('');
    const [message, code] = told(stderr);
    expect(message).toMatch(
      new RegExp(`EvenkeelError: undici 8\\.\\d+\\.\\d+ does not run on Node\\.js ${process.versions.node}`),
    );
    expect(message).toContain('it needs 22.19.0. Install one that does: npm install undici@7');
    expect(code ?? message).toContain('EVENKEEL_OPTION');
  });

  test('entry points that need no undici work', async () => {
    const source = `import { createAgent } from 'evenkeel/node-http';\nimport 'evenkeel';\nconsole.log(typeof createAgent);`;
    expect(await consumer.run('other.mjs', source)).toEqual({ code: 0, stdout: 'function\n', stderr: '' });
  });
});

describe('undici 7 on any Node', () => {
  let consumer: Consumer;
  beforeAll(async () => {
    consumer = await Consumer.create(inject('installed'), ['undici']);
  });
  afterAll(() => consumer.remove());

  test.each([ways['an import'], ways.require])('is loaded: %s', async (file, source) => {
    expect(await consumer.run(file, source)).toEqual({ code: 0, stdout: 'function\n', stderr: '' });
  });
});
