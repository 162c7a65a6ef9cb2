import { cp, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Consumer, runProgram } from '../support/programs/consumer.js';

const consumers = join(import.meta.dirname, 'consumers');
const tsc = join(import.meta.dirname, '../../node_modules/typescript/bin/tsc');

/** Packages a consumer has besides ours. What a folder does not name is not there: its types must not be needed. */
const installed: Record<string, readonly string[]> = {
  root: ['@types/node', 'undici-types'],
  'grpc-js': ['@types/node', 'undici-types', '@grpc/grpc-js'],
  kubernetes: ['@types/node', 'undici-types'],
  mysql2: ['@types/node', 'undici-types', 'mysql2'],
  'node-http': ['@types/node', 'undici-types'],
  opentelemetry: ['@types/node', 'undici-types', '@opentelemetry/api'],
  pg: ['@types/node', 'undici-types', 'pg', '@types/pg', 'pg-protocol', 'pg-types'],
  redis: ['@types/node', 'undici-types', 'ioredis', '@ioredis/commands', 'redis', '@redis'],
  http2: ['@types/node', 'undici-types'],
  tcp: ['@types/node', 'undici-types'],
  amqp: ['@types/node', 'undici-types', 'amqplib', 'amqp-connection-manager', 'rabbitmq-client'],
  undici: ['@types/node', 'undici-types', 'undici'],
  ws: ['@types/node', 'undici-types', 'ws', '@types/ws'],
};

test('every consumer says what it has installed', async () => {
  expect((await readdir(consumers)).sort()).toEqual(Object.keys(installed).sort());
});

describe.each(Object.entries(installed))('a project with %s and %j', (name, links) => {
  let consumer: Consumer;
  beforeAll(async () => {
    consumer = await Consumer.create(inject('installed'), links);
    await cp(join(consumers, name), consumer.folder, { recursive: true });
  });
  afterAll(() => consumer.remove());

  test('compiles, and fails where it should', async () => {
    expect(await runProgram(process.execPath, [tsc, '-p', '.'], consumer.folder)).toEqual({
      code: 0,
      stdout: '',
      stderr: '',
    });
  });
});
