export type { DumpOptions, Recorder } from '../balancer/recording.js';
export {
  type FlightRecorder,
  type FlightRecorderOptions,
  flightRecorder,
  recorderDefaults,
} from './flight-recorder.js';
