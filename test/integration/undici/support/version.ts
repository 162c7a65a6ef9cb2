import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** The folder of the undici under test, where the matrix chooses another than the installed one. */
const { undici: folder } = JSON.parse(process.env.EVENKEEL_PEERS ?? '{}') as { readonly undici?: string };
const require = createRequire(import.meta.url);
const manifest = require(join(folder ?? dirname(require.resolve('undici')), 'package.json')) as { version: string };

/** The version of the undici under test. */
export const version: string = manifest.version;

const [major = 0, minor = 0] = version.split('.').map(Number);

/** Whether it is that version of undici 8 or a later one. */
export const isFrom8 = (wanted: number): boolean => major > 8 || (major === 8 && minor >= wanted);

/** Whether `allowH2` is taken. */
export const carriesHttp2: boolean = isFrom8(10);
