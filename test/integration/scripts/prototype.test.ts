import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const program = fileURLToPath(new URL('support/prototype.mjs', import.meta.url));

/** What Web Platform Tests of streams define. Node's own server does not survive `type`, nor its stdout `highWaterMark`. */
it.each(['start', 'size'])('an accessor that throws at Object.prototype.%s changes nothing', async (name) => {
  const { stdout } = await promisify(execFile)(process.execPath, [program, name]);
  expect(JSON.parse(stdout)).toEqual({
    'the default': 200,
    inFlight: 200,
    peakEwma: 200,
    reported: 200,
    'an Agent': 200,
  });
});
