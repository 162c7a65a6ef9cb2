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
  'OpenAI (vLLM, and others that speak its API)': {
    service: openai,
    origin: 'http://vllm.llm:8000',
    output: 'on its way\nin\nparts\n',
    requests: 2,
  },
  Elasticsearch: { service: elasticsearch, origin: 'http://elastic.search:9200', output: '1\n', requests: 1 },
  ClickHouse: { service: clickhouse, origin: 'http://clickhouse.stats:8123', output: '2\n', requests: 1 },
  'S3 and other AWS services at an endpoint of your own': {
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

const programs = guidePrograms('service-clients');
const open: Pods[] = [];
beforeAll(buildPackage);
afterAll(() => {
  for (const pods of open) pods.close();
});

describe('the guide to clients of services', () => {
  it('has the expected programs', () => {
    expect(programs.map(({ heading }) => heading)).toEqual(Object.keys(cases));
  });

  it.each(programs)('$heading: runs, ends, and reaches every pod', async ({ heading, source }) => {
    const { service, origin, output, requests } = cases[heading] as (typeof cases)[string];
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
