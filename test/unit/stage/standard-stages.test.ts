import { afterEach, describe, expect, it, vi } from 'vitest';
import { descriptionOf } from '../../../src/runtime/described.js';
import { outlierEjection } from '../../../src/stage/outlier-ejection.js';
import { slowStart } from '../../../src/stage/slow-start.js';
import type { StageFactory } from '../../../src/stage/stage.js';
import { exactStages, stagesOf, without } from '../../../src/stage/standard-stages.js';
import { zone } from '../../../src/stage/zone.js';

const names = (stages: readonly StageFactory[]): string[] =>
  stages.map((stage) => descriptionOf(stage)?.name ?? stage.name);
const standard = ['conditions', 'outlierEjection', 'pushback', 'panic'];
const onlyNewVersion: StageFactory = () => ({ apply: (set) => set });
const onlyMyTenant: StageFactory = () => ({ apply: (set) => set });

describe('the stages of a balancer', () => {
  it.each([
    ['nothing', undefined],
    ['an empty list', []],
    ['the standard stages themselves', [...stagesOf()]],
  ])('are the standard ones with %s', (_title, given) => {
    expect(names(stagesOf(given))).toEqual(standard);
  });

  it('include an added stage among the standard ones, in the order in which they belong', () => {
    expect(names(stagesOf([slowStart(), zone({ zone: 'a' })]))).toEqual([
      'conditions',
      'outlierEjection',
      'zone',
      'slowStart',
      'pushback',
      'panic',
    ]);
  });

  it('include a stage instead of the standard one with the same name; the last of two counts', () => {
    const stages = [outlierEjection({ consecutiveFailures: 2 }), outlierEjection({ consecutiveFailures: 3 })];
    expect(names(stagesOf(stages))).toEqual(standard);
    expect(stagesOf(stages)[1]).toBe(stages[1]);
  });

  it("begin with the application's own, in their order", () => {
    expect(names(stagesOf([slowStart(), onlyMyTenant, onlyNewVersion]))).toEqual([
      'onlyMyTenant',
      'onlyNewVersion',
      'conditions',
      'outlierEjection',
      'slowStart',
      'pushback',
      'panic',
    ]);
  });

  it('lose standard stages by without()', () => {
    expect(names(stagesOf([without('outlierEjection')]))).toEqual(['conditions', 'pushback', 'panic']);
    expect(names(stagesOf([without('conditions', 'outlierEjection', 'pushback', 'panic')]))).toEqual([]);
  });

  it('are refused if without() gets other names', () => {
    expect(() => without('slowStart' as never)).toThrow(
      expect.objectContaining({
        code: 'EVENKEEL_OPTION',
        message:
          'without() must be names of standard stages: conditions, topologyHints, outlierEjection, pushback, panic, got "slowStart"',
      }),
    );
    expect(() => without('toString' as never)).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
  });

  it('are exactly those in a list that an adapter calls complete', () => {
    const stages = exactStages([slowStart(), onlyMyTenant]);
    expect(stagesOf(stages)).toBe(stages);
  });
});

describe('hints of the control plane', () => {
  afterEach(() => vi.unstubAllEnvs());

  it('are followed where the environment says where this process runs, and nowhere else', () => {
    expect(names(stagesOf())).not.toContain('topologyHints');
    vi.stubEnv('NODE_NAME', '');
    expect(names(stagesOf())).not.toContain('topologyHints');
    for (const variable of ['NODE_NAME', 'TOPOLOGY_ZONE']) {
      vi.stubEnv(variable, 'here');
      expect(names(stagesOf())[1]).toBe('topologyHints');
      expect(names(stagesOf([without('topologyHints')]))).not.toContain('topologyHints');
      vi.unstubAllEnvs();
    }
  });
});
