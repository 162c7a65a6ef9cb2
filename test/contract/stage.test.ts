import { conditions } from '../../src/stage/conditions.js';
import { outlierEjection } from '../../src/stage/outlier-ejection.js';
import { panic } from '../../src/stage/panic.js';
import { standardStages } from '../../src/stage/standard-stages.js';
import { stageContract } from './stage.js';

stageContract('conditions', [conditions()]);
stageContract('outlierEjection', [outlierEjection()]);
stageContract('panic', [panic()]);
stageContract('outlierEjection, then panic', [outlierEjection(), panic()]);
stageContract('standardStages', standardStages());
