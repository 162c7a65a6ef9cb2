import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { Consumer, runProgram } from '../../support/programs/consumer.js';

/** What an app writes at each entry point, and prints when it works. */
const programs: Readonly<Record<string, string>> = {
  evenkeel: `import { createBalancer } from 'evenkeel'; console.log(typeof createBalancer === 'function');`,
  'evenkeel/undici': `import { createFetch } from 'evenkeel/undici'; console.log(typeof createFetch('http://127.0.0.1:9').close === 'function');`,
  'evenkeel/node-http': `import { createAppAgents } from 'evenkeel/node-http'; console.log(createAppAgents().http.keepAlive);`,
  'evenkeel/grpc-js': `import { serviceTarget } from 'evenkeel/grpc-js'; console.log(serviceTarget('orders.shop:50051').endsWith(':orders.shop:50051'));`,
  'evenkeel/server': `import { createBackend } from 'evenkeel/server'; const backend = createBackend(); console.log(typeof backend.http === 'function'); await backend.close();`,
  'evenkeel/metrics': `import { prometheusText } from 'evenkeel/metrics'; console.log(typeof prometheusText() === 'string');`,
};

describe('bundled into an app', () => {
  let consumer: Consumer;
  beforeAll(async () => {
    consumer = await Consumer.create(inject('installed'), ['undici', '@grpc/grpc-js']);
  });
  afterAll(() => consumer.remove());

  async function bundled(name: string, source: string): Promise<{ readonly file: string; readonly text: string }> {
    const input = join(consumer.folder, `${name}.js`);
    await writeFile(input, source);
    const bundle = await rolldown({
      input,
      platform: 'node',
      external: ['undici', '@grpc/grpc-js'],
      cwd: consumer.folder,
    });
    const file = join(consumer.folder, `${name}-bundle.mjs`);
    const { output } = await bundle.generate({ format: 'esm', codeSplitting: false } as never);
    await bundle.close();
    await writeFile(file, output[0].code);
    return { file, text: await readFile(file, 'utf8') };
  }

  it.each(Object.entries(programs))('%s works', async (entry, source) => {
    const { file } = await bundled(entry.replace('/', '-'), source);
    const { code, stdout, stderr } = await runProgram(process.execPath, [file], consumer.folder);
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'true\n', stderr: '' });
  });

  it('an import that uses nothing adds nothing: package.json says which files have side effects', async () => {
    const { text } = await bundled('nothing', `import 'evenkeel'; import 'evenkeel/node-http'; console.log('ok');`);
    expect(text.length).toBeLessThan(200);
  });
});
