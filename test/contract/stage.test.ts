import { activeHealth } from '../../src/stage/active-health.js';
import { conditions } from '../../src/stage/conditions.js';
import { outlierEjection } from '../../src/stage/outlier-ejection.js';
import { panic } from '../../src/stage/panic.js';
import { pushback } from '../../src/stage/pushback.js';
import { slowStart } from '../../src/stage/slow-start.js';
import { stagesOf } from '../../src/stage/standard-stages.js';
import { subset } from '../../src/stage/subset.js';
import { zone } from '../../src/stage/zone.js';
import { stageContract } from './stage.js';

stageContract('conditions', [conditions()]);
stageContract('outlierEjection', [outlierEjection()]);
stageContract('panic', [panic()]);
stageContract('outlierEjection, then panic', [outlierEjection(), panic()]);
stageContract('pushback', [pushback()]);
stageContract('slowStart', [slowStart()]);
stageContract('subset by name', [subset({ size: 3, client: 'pod-1' })]);
stageContract('subset by place', [subset({ size: 3, client: { index: 2, count: 7 } })]);
stageContract('zone', [zone({ zone: 'a' })]);
stageContract('activeHealth, then panic', [activeHealth(), panic()]);
stageContract('all at once', [
  conditions(),
  subset({ size: 3, client: 'pod-1' }),
  activeHealth(),
  outlierEjection(),
  zone({ zone: 'a' }),
  slowStart(),
  panic(),
]);
stageContract('the standard stages', stagesOf());
