import { inFlightMetric } from '../../load/orca.js';
import { encodeLoadReport, type ReportedLoad } from './orca-message.js';
import type { Samples } from './samples.js';

/** The formats of a load report: text for HTTP, and ORCA's protobuf message for gRPC (base64 in HTTP). */
export type ReportFormat = 'TEXT' | 'BIN';

/** How many load reports are cached as text until the next sample. */
const MAX_KEPT = 256;

/** Where the number of requests in flight comes from. */
export interface InFlightSource {
  readonly inFlight: number;
}

/** Writes load reports. All of a report except the number of requests in flight is sampled in advance and cached in its final form. */
export class LoadReporter {
  readonly #inFlight: InFlightSource;
  readonly #samples: Samples;
  /** The sample from which the cached texts were made. */
  #of: ReportedLoad | undefined;
  #text = '';
  /** Load reports as text, cached by the number of requests in flight. */
  readonly #texts = new Map<number, string>();

  constructor(inFlight: InFlightSource, samples: Samples) {
    this.#inFlight = inFlight;
    this.#samples = samples;
  }

  /** The current load report as an object. */
  get load(): ReportedLoad {
    const { load } = this.#samples;
    return { ...load, named_metrics: { [inFlightMetric]: this.#inFlight.inFlight, ...load.named_metrics } };
  }

  /** Returns the current load report as the value of a header. */
  header(format: ReportFormat): string {
    if (format === 'BIN') return this.message().toString('base64');
    this.#prepare();
    const { inFlight } = this.#inFlight;
    let text = this.#texts.get(inFlight);
    if (text === undefined) {
      text = `TEXT named_metrics.${inFlightMetric}=${inFlight}${this.#text}`;
      if (this.#texts.size < MAX_KEPT) this.#texts.set(inFlight, text);
    }
    return text;
  }

  /** Returns the current load report as ORCA's protobuf message. */
  message(): Buffer {
    return encodeLoadReport(this.load);
  }

  #prepare(): void {
    const { load } = this.#samples;
    if (load === this.#of) return;
    this.#of = load;
    this.#texts.clear();
    const { named_metrics, ...fields } = load;
    const named = Object.entries(named_metrics).map(([name, value]) => [`named_metrics.${name}`, value] as const);
    this.#text = [...Object.entries(fields), ...named].map(([name, value]) => `, ${name}=${value}`).join('');
  }
}
