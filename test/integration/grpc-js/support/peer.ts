import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/** Which grpc-js is under test, by folder: the matrix runs these tests with older ones, too. */
const { '@grpc/grpc-js': folder = '@grpc/grpc-js' } = JSON.parse(process.env.EVENKEEL_PEERS ?? '{}') as {
  readonly '@grpc/grpc-js'?: string;
};
const manifest = createRequire(import.meta.url).resolve(`${folder}/package.json`);
const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string };
const [major, minor, patch] = version.split('.').map(Number) as [number, number, number];
const [nodeMajor] = process.versions.node.split('.').map(Number) as [number];

/** Whether a refused stream that shows as an error of a write ends the call, as before grpc-js 1.14.7. */
export const writesAreNotRepeated: boolean = nodeMajor >= 26 && major === 1 && minor === 14 && patch < 7;
