import { describe, expect, it } from 'vitest';
import { decodeLoadReport } from '../../../src/adapter/grpc-js/server-reports.js';
import { parseLoadReport } from '../../../src/load/orca.js';
import { LoadReporter } from '../../../src/server/report/load-reporter.js';
import type { ReportedLoad } from '../../../src/server/report/orca-message.js';
import type { Samples } from '../../../src/server/report/samples.js';

const reporter = (load: ReportedLoad, inFlight: number): LoadReporter =>
  new LoadReporter({ inFlight }, { load } as Samples);

const full: ReportedLoad = {
  application_utilization: 0.5,
  cpu_utilization: 0.25,
  rps_fractional: 12.5,
  eps: 0,
  named_metrics: { evenkeel_event_loop: 0.4, 'queue:jobs': 7 },
};
const read = {
  applicationUtilization: 0.5,
  cpuUtilization: 0.25,
  rpsFractional: 12.5,
  eps: 0,
  namedMetrics: { evenkeel_in_flight: 3, evenkeel_event_loop: 0.4, 'queue:jobs': 7 },
};
const none: ReportedLoad = { named_metrics: {} };

describe('a report', () => {
  it('as text starts with the requests in flight', () => {
    const text = reporter(full, 3).header('TEXT');
    expect(text).toMatch(/^TEXT named_metrics\.evenkeel_in_flight=3, application_utilization=0\.5, /);
    expect(parseLoadReport(text)).toEqual(read);
  });

  it('in binary form is an ORCA message', () => {
    expect(decodeLoadReport(reporter(full, 3).message())).toEqual(read);
    expect(decodeLoadReport(Buffer.from(reporter(full, 3).header('BIN'), 'base64'))).toEqual(read);
  });

  it('has only the requests in flight before the first sample', () => {
    expect(reporter(none, 1).header('TEXT')).toBe('TEXT named_metrics.evenkeel_in_flight=1');
    expect(decodeLoadReport(reporter(none, 1).message())).toEqual({ namedMetrics: { evenkeel_in_flight: 1 } });
  });

  it('follows the count and the samples', () => {
    const samples = { load: none } as Samples;
    const count = { inFlight: 1 };
    const own = new LoadReporter(count, samples);
    own.header('TEXT');
    samples.load = full;
    count.inFlight = 2;
    expect(parseLoadReport(own.header('TEXT'))).toMatchObject({
      cpuUtilization: 0.25,
      namedMetrics: { evenkeel_in_flight: 2 },
    });
  });

  it('may have names of more than 127 bytes in its message', () => {
    const name = 'n'.repeat(200);
    const load: ReportedLoad = { named_metrics: { [name]: 1 } };
    expect(decodeLoadReport(reporter(load, 0).message())).toMatchObject({ namedMetrics: { [name]: 1 } });
  });
});
