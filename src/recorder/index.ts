export type { DumpOptions, Recorder } from '../call/recording.js';
export {
  type FlightRecorder,
  type FlightRecorderOptions,
  flightRecorder,
} from './flight-recorder.js';
