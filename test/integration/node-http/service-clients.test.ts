import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildPackage, guidePrograms, outputOfModule } from '../../support/programs/programs.js';

/** Just as much of a service as its client library needs for the guide's request. */
type Service = (request: IncomingMessage, body: string, response: ServerResponse) => void;

const json = (response: ServerResponse, value: unknown, headers: Record<string, string> = {}): void => {
  response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
};

const openai: Service = (_request, body, response) => {
  const { stream } = JSON.parse(body);
  if (stream !== true) {
    json(response, { choices: [{ index: 0, message: { role: 'assistant', content: 'on its way' } }] });
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const content of ['in', 'parts']) {
    response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`);
  }
  response.end('data: [DONE]\n\n');
};

const elasticsearch: Service = (_request, _body, response) => {
  const hits = { hits: [{ _index: 'orders', _id: '42', _source: {} }] };
  json(
    response,
    { hits },
    { 'x-elastic-product': 'Elasticsearch', 'content-type': 'application/vnd.elasticsearch+json' },
  );
};

const clickhouse: Service = (_request, body, response) => {
  expect(body).toContain('FORMAT JSONEachRow');
  response.end('{"state":"open","count()":"2"}\n{"state":"sent","count()":"1"}\n');
};

const s3: Service = ({ url, headers }, _body, response) => {
  // The signature is made of the Host header, and a server checks it.
  expect([url, headers.host, headers.authorization]).toEqual([
    '/reports/today.csv?x-id=GetObject',
    'minio.storage:9000',
    expect.stringContaining('SignedHeaders='),
  ]);
  response.end('id,state');
};

const cases: Readonly<Record<string, { service: Service; origin: string; output: string; requests: number }>> = {
  openai: {
    service: openai,
    origin: 'http://vllm.llm:8000',
    output: 'on its way\nin\nparts\n',
    requests: 2,
  },
  '@elastic/elasticsearch': {
    service: elasticsearch,
    origin: 'http://elastic.search:9200',
    output: '1\n',
    requests: 1,
  },
  '@clickhouse/client': { service: clickhouse, origin: 'http://clickhouse.stats:8123', output: '2\n', requests: 1 },
  '@aws-sdk/client-s3': {
    service: s3,
    origin: 'http://minio.storage:9000',
    output: 'id,state\n',
    requests: 1,
  },
};

class Pods {
  readonly served = [0, 0, 0];
  readonly #servers: Server[] = [];

  constructor(service: Service, host: string) {
    for (const index of this.served.keys()) {
      const server = createServer(async (request, response) => {
        const served = this.served as number[];
        served[index] = (served[index] as number) + 1;
        expect(request.headers.host).toBe(host);
        let body = '';
        for await (const chunk of request.setEncoding('utf8')) body += chunk;
        service(request, body, response);
      });
      this.#servers.push(server);
    }
  }

  async listen(): Promise<string> {
    const addresses: string[] = [];
    for (const server of this.#servers) {
      await once(server.listen(0, '127.0.0.1'), 'listening');
      addresses.push(`{ address: '127.0.0.1', port: ${(server.address() as AddressInfo).port} }`);
    }
    return `[${addresses}]`;
  }

  close(): void {
    for (const server of this.#servers) server.close().closeAllConnections();
  }
}

/** Imports, the line with our entry point, what is asked, and how all is closed. */
function partsOf(source: string): [head: string, create: string, asks: string, end: string] {
  const parts =
    /^([\s\S]*?)(^const \w+ = create(?:Agent|Fetch)\(.*\);$)([\s\S]*?)(\n\n(?:s3\.destroy|await [\w.]+\.close)[\s\S]*)$/m.exec(
      source,
    );
  if (parts === null) throw new Error(`not as expected: ${source}`);
  return parts.slice(1) as [string, string, string, string];
}

/** The programs of the guide, by the library each imports. */
const programs = guidePrograms('http')
  .filter(({ heading }) => heading === 'Client libraries')
  .map(({ source }) => ({ library: /from '(?!evenkeel)(.*)'/.exec(source)?.[1] ?? '', source }));
const open: Pods[] = [];
beforeAll(buildPackage);
afterAll(() => {
  for (const pods of open) pods.close();
});

describe('docs/guide/http.md, client libraries', () => {
  it('has the expected programs', () => {
    expect(programs.map(({ library }) => library)).toEqual(Object.keys(cases));
  });

  it.each(programs)('$library: runs, ends, and reaches every pod', async ({ library, source }) => {
    const { service, origin, output, requests } = cases[library] as (typeof cases)[string];
    const pods = new Pods(service, new URL(origin).host);
    open.push(pods);
    const endpoints = await pods.listen();
    const balanced = source.includes('createFetch') ? 'fetch' : 'agent';
    const [head, create, asks, end] = partsOf(source);
    const program = [
      "import { roundRobin, staticEndpoints } from 'evenkeel';",
      // It says on standard error which Node it will need next year.
      "process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';",
      head,
      create.replace(/\);$/, `, { resolver: staticEndpoints(${endpoints}), picker: roundRobin() });`),
      `const isOpen = () => ${balanced}.balancer.snapshot().endpoints.every(({ state }) => state === 'ready');`,
      'while (!isOpen()) await new Promise((resolve) => setTimeout(resolve, 5));',
      asks,
      // What the guide does once is done until each pod had its turn.
      `console.log = () => {};\nfor (let time = 0; time < 5; time++) {${asks.replace(/^const (?:openai|client|s3) = [\s\S]*?;$/m, '')}}`,
      end,
    ].join('\n');
    expect(await outputOfModule(program)).toBe(output);
    expect(pods.served.reduce((sum, count) => sum + count, 0)).toBe(6 * requests);
    for (const count of pods.served) expect(count).toBeGreaterThan(0);
  });
});
