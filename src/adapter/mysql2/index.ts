export type { AnyPoolCluster } from './cluster-face.js';
export type { FollowServiceOptions } from './follow-options.js';
export { followService, type ServiceFollower } from './follow-service.js';
