import { rotationScenario } from './rotation-scenario.ts';
import { simulationTest } from './seeds.ts';

simulationTest(rotationScenario, 20);
