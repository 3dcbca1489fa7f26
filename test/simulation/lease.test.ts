import { leaseScenario } from './lease-scenario.ts';
import { simulationTest } from './seeds.ts';

simulationTest(leaseScenario, 70);
