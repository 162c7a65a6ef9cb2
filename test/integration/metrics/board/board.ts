import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { request } from 'undici';
import { root } from '../../../support/programs/programs.js';
import { SystemServer } from '../../../support/programs/programs-of-debian.js';

interface Target {
  readonly refId: string;
  readonly expr: string;
  readonly legendFormat: string;
}

/** A panel of `docs/operating/dashboard.json`, as far as it is drawn. */
export interface Panel {
  readonly title: string;
  readonly description: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly fieldConfig: { readonly defaults: { readonly unit: string } };
  readonly targets: readonly Target[];
}

/** One line of a panel; times in seconds since 1970. */
export interface Line {
  readonly legend: string;
  readonly points: readonly (readonly [atS: number, value: number])[];
}

export async function panelsOfBoard(): Promise<readonly Panel[]> {
  const text = await readFile(join(root, 'docs/operating/dashboard.json'), 'utf8');
  return (JSON.parse(text) as { panels: Panel[] }).panels;
}

/** A Prometheus that reads one page, and answers as Grafana would ask. */
export class BoardData implements AsyncDisposable {
  readonly #server: SystemServer;
  readonly #rateInterval: string;

  private constructor(server: SystemServer, rateInterval: string) {
    this.#server = server;
    this.#rateInterval = rateInterval;
  }

  static async read(port: number, everyMs: number): Promise<BoardData> {
    const server = await SystemServer.start(
      'Prometheus',
      `global: { scrape_interval: ${everyMs}ms }
scrape_configs:
  - { job_name: app, metrics_path: /scrape, static_configs: [{ targets: ['127.0.0.1:${port}'] }] }
`,
    );
    // As Grafana has it: four scrapes.
    return new BoardData(server, `${4 * everyMs}ms`);
  }

  /** The lines of a query between two times, in seconds since 1970. */
  async lines({ expr, legendFormat }: Target, fromS: number, toS: number, stepS = 1): Promise<readonly Line[]> {
    const query = expr.replaceAll('$__rate_interval', this.#rateInterval).replaceAll('$target', '.*');
    const search = new URLSearchParams({ query, start: String(fromS), end: String(toS), step: String(stepS) });
    const { body } = await request(`http://127.0.0.1:${this.#server.endpoint.port}/api/v1/query_range?${search}`);
    const { data, error } = (await body.json()) as {
      error?: string;
      data?: { result: { metric: Record<string, string>; values: [number, string][] }[] };
    };
    if (data === undefined) throw new Error(`${query}: ${error}`);
    return data.result.map(({ metric, values }) => ({
      legend: legendFormat.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) => metric[label] ?? ''),
      points: values.map(([atS, value]) => [atS, Number(value)] as const).filter(([, value]) => Number.isFinite(value)),
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
  }
}
