import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Consumer, linkPackages, type ProgramResult, runProgram } from '../support/programs/consumer.js';

const consumers = join(import.meta.dirname, 'consumers');
const tsc = join(import.meta.dirname, '../../node_modules/typescript/bin/tsc');

/** What all of them have besides our package. */
const common = ['@types/node', 'undici-types'];

/** Packages a consumer has besides those. What a folder does not name is not there: its types must not be needed. */
const installed: Record<string, readonly string[]> = {
  root: [],
  'grpc-js': ['@grpc/grpc-js'],
  kubernetes: [],
  mysql2: ['mysql2'],
  'node-http': [],
  opentelemetry: ['@opentelemetry/api'],
  pg: ['pg', '@types/pg', 'pg-protocol', 'pg-types'],
  redis: ['ioredis', '@ioredis/commands', 'redis', '@redis'],
  http2: [],
  tcp: [],
  amqp: ['amqplib', 'amqp-connection-manager', 'rabbitmq-client'],
  undici: ['undici'],
  ws: ['ws', '@types/ws'],
};

/** Those with a tsconfig.json of their own. The others are one program, which reads the types of Node only once. */
const alone = ['amqp'];

/** Each in a folder of its own, with its own `node_modules`. */
let folder: string;
const results = new Map<string, ProgramResult>();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'evenkeel-consumers-'));
  await linkPackages(folder, common);
  await cp(consumers, folder, { recursive: true });
  for (const [name, links] of Object.entries(installed))
    await Consumer.create(inject('installed'), links, join(folder, name));
  for (const project of ['.', ...alone]) {
    results.set(project, await runProgram(process.execPath, [tsc, '-p', project, '--pretty', 'false'], folder));
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test('every consumer says what it has installed', async () => {
  const entries = await readdir(consumers, { withFileTypes: true });
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  expect(folders.sort()).toEqual(Object.keys(installed).sort());
});

describe.each(Object.entries(installed))('a project with %s and %j', (name) => {
  test('compiles, and fails where it should', () => {
    const { stdout, stderr } = results.get(alone.includes(name) ? name : '.') as ProgramResult;
    const errors = stdout.split('\n').filter((line) => line.startsWith(`${name}/`));
    expect({ errors, stderr }).toEqual({ errors: [], stderr: '' });
  });
});

test.each(['.', ...alone])('the compiler has no other complaint: %s', (project) => {
  expect(results.get(project)).toEqual({ code: 0, stdout: '', stderr: '' });
});
